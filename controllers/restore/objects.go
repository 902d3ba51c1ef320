// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// restore has the objects restored, and turns what came of it into the outcome.
func (r *Reconciler) restore(ctx context.Context, s *scope) (bool, error) {
	if run.Decided(s.Object) {
		return true, nil
	}
	if s.Stopping() {
		if r.driver.StopSteps(s, stepRestore) {
			s.Running(v1alpha1.ReasonCancelling, "Stopping; what was restored stays")
			return false, nil
		}
		if !r.driver.Begun(s, stepRestore) {
			s.Decide(s.CancelledOutcome(), r.Now())
			return true, nil
		}
	}
	preferred, _, err := r.priorities(ctx, s)
	if err != nil {
		return false, err
	}
	if !r.driver.Begun(s, stepRestore) {
		s.Object.Status.Attempts++
	}
	s.Running(v1alpha1.ReasonRestoring, r.report(s.Object))
	report, planned := r.driver.Reporter(s.Object), s.Object.Status.ItemActions
	made := run.InStore(r.driver, s, stepRestore, r.requestOf, func(ctx context.Context, store *backupstore.Store, request job.Request) (job.Result, error) {
		if err := run.AwaitLoads(ctx, r.Client, r.Actions, planned); err != nil {
			return job.Result{}, err
		}
		request.Engine.Progress, request.Engine.Priorities, request.Engine.Named = report, preferred.all, preferred.named
		return r.Job.Restore(ctx, store, request)
	})
	if made == nil {
		return false, nil
	}
	r.settle(s, made)
	return true, nil
}

// report copies the counts into the status and says them.
func (r *Reconciler) report(o *v1alpha1.Restore) string {
	total, done, known := r.driver.Progress(o)
	if !known {
		return "Reading the archive"
	}
	o.Status.Progress = &v1alpha1.RestoreProgress{TotalItems: total, ItemsRestored: done}
	return fmt.Sprintf("Restoring: %d of %s", done, run.Count(total, "object"))
}

// settle records the outcome.
func (r *Reconciler) settle(s *scope, made *run.Ended[job.Result]) {
	untold := errors.Is(made.Err, job.ErrNotStored)
	if made.Err != nil && !untold {
		r.settleEarly(s, made)
		return
	}
	result, status := made.Value, &s.Object.Status
	count(status, result)
	o := run.Outcome{Phase: run.PhaseCompleted, Reason: v1alpha1.ReasonCompleted, Message: sum(result.Counts, s.Object.Spec.DryRun)}
	if result.Errors > 0 {
		o.Phase, o.Reason = run.PhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.Message += fmt.Sprintf("; %s, with the reason in the results file: mend what it says and restore again",
			run.Count(status.Errors, "error"))
	}
	if result.Warnings > 0 {
		o.Message += ", " + run.Count(status.Warnings, "warning")
	}
	if untold { // a person can not tell what is wrong, so it must not look as if nothing were
		o.Phase, o.Reason = run.PhaseFailed, v1alpha1.ReasonFailed
		o.Message += "; " + r.Redactor.String(made.Err.Error())
	}
	s.Decide(o, result.Completed)
}

// settleEarly records the outcome of a restore that did not come to its end. What was
// restored stays, so it is counted.
func (r *Reconciler) settleEarly(s *scope, made *run.Ended[job.Result]) {
	o := run.Outcome{
		Phase: run.PhaseFailed, Reason: v1alpha1.ReasonFailed,
		Message: "The restore failed: " + r.Redactor.String(made.Err.Error()),
	}
	if s.Stopping() {
		o = s.CancelledOutcome()
	}
	if done := made.Value.Total(); done > 0 {
		status, of := &s.Object.Status, s.Object.Status.Progress
		count(status, made.Value)
		if of != nil {
			status.Progress.TotalItems = max(of.TotalItems, int64(done))
		}
		o.Message += "; " + sum(made.Value.Counts, s.Object.Spec.DryRun) + " before"
	}
	s.Decide(o, r.Now())
}

// count copies what became of the objects into the status.
func count(status *v1alpha1.RestoreStatus, result job.Result) {
	counts, total := result.Counts, int64(result.Total())
	status.Progress = &v1alpha1.RestoreProgress{TotalItems: total, ItemsRestored: total}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
	status.Counts = &v1alpha1.RestoreCounts{
		Created: int64(counts[restore.Created]), Updated: int64(counts[restore.Updated]),
		Recreated: int64(counts[restore.Recreated]), Unchanged: int64(counts[restore.Unchanged]),
		Skipped: int64(counts[restore.Skipped]), Failed: int64(counts[restore.Failed]),
	}
}

// sum says what became of the objects.
func sum(counts map[restore.Outcome]int, dry bool) string {
	var parts []string
	for _, outcome := range []restore.Outcome{
		restore.Created, restore.Updated, restore.Recreated, restore.Unchanged, restore.Skipped, restore.Failed,
	} {
		if n := counts[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	if len(parts) == 0 {
		parts = []string{"there was nothing to restore"}
	}
	message := "Objects: " + strings.Join(parts, ", ")
	if dry {
		message = "Dry run, nothing was written; " + message
	}
	return message
}
