// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// restore has the objects restored. It is done when that has ended, well or not.
func (r *Reconciler) restore(ctx context.Context, s *scope) (bool, error) {
	if run.Decided(s.Object) || run.Processed(s.Object) {
		return true, nil
	}
	if err := r.driver.FollowOperations(ctx, s, stepRestore); err != nil {
		return false, err
	}
	if s.Stopping() {
		if r.driver.StopSteps(s, stepRestore) {
			s.Running(v1alpha1.ReasonCancelling, "Stopping; what was restored stays")
			return false, nil
		}
		if !r.driver.Begun(s, stepRestore) {
			return true, nil
		}
	} else if !r.driver.Begun(s, stepRestore) {
		s.Object.Status.Attempts++
	}
	s.Running(v1alpha1.ReasonRestoring, r.report(s.Object))
	made, err := r.restored(ctx, s)
	if made == nil {
		return false, err
	}
	s.GivenUp = made.Err != nil && !errors.Is(made.Err, job.ErrNotStored)
	if made.Err == nil && made.Value.Operations+len(s.Operations) > 0 {
		count(&s.Object.Status, made.Value)
		s.SetProcessed(made.Value.Operations)
	}
	return true, nil
}

// restored has the objects restored, and returns what came of it when that has ended.
func (r *Reconciler) restored(ctx context.Context, s *scope) (*run.Ended[job.Result], error) {
	preferred, _, err := r.priorities(ctx, s)
	if err != nil {
		return nil, err
	}
	starts, err := r.startsQuiesced(ctx, s)
	if err != nil {
		return nil, err
	}
	report, planned := r.driver.Reporter(s.Object), s.Object.Status.ItemActions
	return run.InStore(r.driver, s, stepRestore, r.requestOf, func(ctx context.Context, store *backupstore.Store, request job.Request) (job.Result, error) {
		if err := run.AwaitLoads(ctx, r.Client, r.Actions, planned); err != nil {
			return job.Result{}, err
		}
		request.Engine.StartsQuiesced = starts
		request.Engine.Progress, request.Engine.Priorities, request.Engine.Named = report, preferred.all, preferred.named
		return r.Job.Restore(ctx, store, request)
	}), nil
}

// startsQuiesced says whether an action of the plan starts workloads that come back stopped. A dry
// run has none, and nothing to be told about what they would do.
func (r *Reconciler) startsQuiesced(ctx context.Context, s *scope) (bool, error) {
	if s.Object.Spec.DryRun {
		return true, nil
	}
	for _, post := range s.Post {
		var plugin v1alpha1.Plugin
		err := r.Client.Get(ctx, types.NamespacedName{Name: post.Spec.PluginRef.Name}, &plugin)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading Plugin %s: %w", post.Spec.PluginRef.Name, err)
		}
		if plugin.Spec.Executor.Builtin != nil {
			return true, nil
		}
	}
	return false, nil
}

// conclude has what became of the operations stored, if there were any, and turns
// everything into the outcome.
func (r *Reconciler) conclude(ctx context.Context, s *scope) (bool, error) {
	switch {
	case run.Decided(s.Object):
		return true, nil
	case run.Processed(s.Object):
		return r.finalize(s), nil
	case s.Stopping() && !r.driver.Begun(s, stepRestore):
		s.Decide(s.CancelledOutcome(), r.Now())
		return true, nil
	}
	made, err := r.restored(ctx, s)
	if made == nil {
		return false, err
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

// settle records the outcome of a restore.
func (r *Reconciler) settle(s *scope, made *run.Ended[job.Result]) {
	untold := errors.Is(made.Err, job.ErrNotStored)
	if made.Err != nil && !untold {
		r.settleEarly(s, made)
		return
	}
	count(&s.Object.Status, made.Value)
	o := outcome(s)
	if untold { // a person can not tell what is wrong, so it must not look as if nothing were
		o.Phase, o.Reason = run.PhaseFailed, v1alpha1.ReasonFailed
		o.Message += "; " + r.Redactor.String(made.Err.Error())
	}
	at := made.Value.Completed
	if len(s.Operations) > 0 {
		at = r.Now() // they ended later
	}
	s.Decide(o, at)
}

// outcome is what the counts in the status amount to.
func outcome(s *scope) run.Outcome {
	status := &s.Object.Status
	o := run.Outcome{
		Phase: run.PhaseCompleted, Reason: v1alpha1.ReasonCompleted,
		Message: sum(status.Counts, s.Object.Spec.DryRun) + s.DescribeOperations(),
	}
	if status.Errors > 0 {
		o.Phase, o.Reason = run.PhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.Message += fmt.Sprintf("; %s, with the reason in the results file: mend what it says and restore again",
			run.Count(status.Errors, "error"))
	}
	if status.Warnings > 0 {
		o.Message += ", " + run.Count(status.Warnings, "warning")
	}
	return o
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
		o.Message += "; " + sum(status.Counts, s.Object.Spec.DryRun) + " before"
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
func sum(counts *v1alpha1.RestoreCounts, dry bool) string {
	var parts []string
	for _, part := range []struct {
		n       int64
		outcome restore.Outcome
	}{
		{counts.Created, restore.Created},
		{counts.Updated, restore.Updated},
		{counts.Recreated, restore.Recreated},
		{counts.Unchanged, restore.Unchanged},
		{counts.Skipped, restore.Skipped},
		{counts.Failed, restore.Failed},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.outcome))
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
