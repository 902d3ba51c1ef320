// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
)

// archive has the objects archived. It is done when that has ended, well or not.
func (r *Reconciler) archive(ctx context.Context, s *scope) (bool, error) {
	if run.Decided(s.Object) || run.Processed(s.Object) {
		return true, nil
	}
	if err := r.driver.FollowOperations(ctx, s, stepArchive); err != nil {
		return false, err
	}
	switch begun := r.driver.Begun(s, stepArchive); {
	case s.Stopping() && r.driver.StopSteps(s, stepArchive):
		s.Running(v1alpha1.ReasonCancelling, "Stopping the archive")
		return false, nil
	case s.Stopping() && s.Object.Status.Attempts == 0:
		return true, nil
	case s.Stopping():
	case !begun && !r.driver.Anew(s):
		return false, nil
	case !begun:
		s.Object.Status.Attempts++
	}
	s.Running(v1alpha1.ReasonArchiving, r.report(s.Object))
	made := r.archived(s)
	if made == nil {
		return false, nil
	}
	s.GivenUp = made.Err != nil
	if made.Err == nil && made.Value.Operations > 0 {
		r.count(s, made.Value)
		s.SetProcessed(made.Value.Operations)
	}
	return true, nil
}

// archived has the archive made, and returns what came of it when that has ended.
func (r *Reconciler) archived(s *scope) *run.Ended[job.Result] {
	return run.InStore(r.driver, s, stepArchive, r.requestOf, r.archiver(s))
}

// archiver returns the work of the archive step. A run that is being stopped
// after an operator went away only looks whether it had succeeded already.
func (r *Reconciler) archiver(s *scope) func(context.Context, *backupstore.Store, job.Request) (job.Result, error) {
	work, planned := r.Job.Archive, s.Object.Status.ItemActions
	if s.Stopping() {
		work, planned = r.Job.Earlier, nil
	}
	report := r.driver.Reporter(s.Object)
	return func(ctx context.Context, store *backupstore.Store, request job.Request) (job.Result, error) {
		if err := run.AwaitLoads(ctx, r.Client, r.Actions, planned); err != nil {
			return job.Result{}, err
		}
		request.Progress = report
		return work(ctx, store, request)
	}
}

// conclude has what became of the operations stored, if there were any, and turns
// everything into the outcome.
func (r *Reconciler) conclude(ctx context.Context, s *scope) (bool, error) {
	switch {
	case run.Decided(s.Object):
		return true, nil
	case s.Stopping() && s.Object.Status.Attempts == 0:
		s.Decide(s.CancelledOutcome(), r.Now())
		return true, nil
	}
	made := r.archived
	if run.Processed(s.Object) {
		made = r.finalized
	}
	ended := made(s)
	if ended == nil {
		return false, nil
	}
	if added, err := r.label(ctx, s, ended.Value.Labels); added || err != nil {
		return false, err
	}
	if ended.Err == nil {
		r.note(ctx, s.Object)
	}
	r.settle(s, ended)
	return true, nil
}

// note notes that a stored backup has a Backup here. It may be deleted as soon as it has
// ended, and must not be found in its location and brought back then. What fails is done again
// by who looks through the location: it is no reason to lose a backup.
func (r *Reconciler) note(ctx context.Context, b *v1alpha1.Backup) {
	one := seen.Backups{}
	one.Add(b.StoredName(), string(b.UID), true)
	if err := seen.Remember(ctx, r.Client, r.Reader, b.Namespace, b.Status.StorageLocation, one); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Noting that a backup is stored")
	}
}

// settle records the outcome.
func (r *Reconciler) settle(s *scope, made *run.Ended[job.Result]) {
	if made.Err != nil {
		if s.Stopping() {
			s.Decide(s.CancelledOutcome(), r.Now())
			return
		}
		s.Decide(run.Outcome{
			Phase: run.PhaseFailed, Reason: v1alpha1.ReasonFailed,
			Message: "The archive could not be made: " + r.Redactor.String(made.Err.Error()),
		}, r.Now())
		return
	}
	result := made.Value
	if result.Bytes > 0 {
		r.metrics.archived(s.Object, result.Bytes)
	}
	r.count(s, result)
	status := &s.Object.Status
	o := run.Outcome{
		Phase: run.PhaseCompleted, Reason: v1alpha1.ReasonCompleted,
		Message: run.Count(int64(result.Items), "object") + " in the archive" + s.DescribeOperations(),
	}
	if result.Errors > 0 {
		o.Phase, o.Reason = run.PhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.Message += ", " + run.Count(status.Errors, "error") + " (listed in the results file)"
	}
	if result.Warnings > 0 {
		o.Message += ", " + run.Count(status.Warnings, "warning")
	}
	s.Decide(o, result.Completed)
}

// count copies the counts of the archive into the status.
func (r *Reconciler) count(s *scope, result job.Result) {
	status, items := &s.Object.Status, int64(result.Items)
	status.Progress = &v1alpha1.BackupProgress{TotalItems: items, ItemsBackedUp: items}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
}

// report copies the counts into the status and says them.
func (r *Reconciler) report(b *v1alpha1.Backup) string {
	total, done, known := r.driver.Progress(b)
	if !known {
		return "Archiving"
	}
	b.Status.Progress = &v1alpha1.BackupProgress{TotalItems: total, ItemsBackedUp: done}
	return fmt.Sprintf("Archiving: %d of %s", done, run.Count(total, "object"))
}
