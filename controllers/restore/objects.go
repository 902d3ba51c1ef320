// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// reconcileRestore restores the objects. It is done when the step has ended, successfully or
// not.
func (r *Reconciler) reconcileRestore(ctx context.Context, s *scope) (bool, error) {
	if lifecycle.IsFinished(s.Object) || lifecycle.HasProcessedItems(s.Object) {
		return true, nil
	}
	if err := r.driver.ReconcileOperations(ctx, s, stepRestore); err != nil {
		return false, err
	}
	if s.IsCancelRequested() {
		if r.driver.CancelSteps(s, stepRestore) {
			s.MarkRunning(v1alpha1.ReasonCancelling, "Canceling; restored objects stay")
			return false, nil
		}
		if !r.driver.HasStepStarted(s, stepRestore) {
			return true, nil
		}
	} else if may, err := r.beginRestoreAttempt(ctx, s); !may {
		return false, err
	}
	s.MarkRunning(v1alpha1.ReasonRestoring, r.updateProgress(s.Object))
	made, err := r.startRestore(ctx, s)
	if made == nil {
		return false, err
	}
	if err := r.addBackupLabels(ctx, s, made.Value.BackupLabels); err != nil {
		return false, err
	}
	untold := errors.Is(made.Err, restore.ErrResultsNotStored)
	s.WorkFailed = made.Err != nil && !untold
	if !s.WorkFailed && made.Value.Operations+len(s.Operations) > 0 {
		r.recordItemCounts(&s.Object.Status, made.Value)
		if untold {
			r.recordResultsNotStored(s, v1alpha1.ReasonResultsNotStored, made.Err)
		}
		s.MarkItemsProcessed(made.Value.Operations)
	}
	return true, nil
}

// beginRestoreAttempt counts a new attempt, unless one is running or has to wait.
func (r *Reconciler) beginRestoreAttempt(ctx context.Context, s *scope) (bool, error) {
	admission, err := lifecycle.AttemptRefused, error(nil)
	if !r.driver.HasStepStarted(s, stepRestore) {
		admission, err = r.driver.AdmitAttempt(ctx, s, stepRestore)
	}
	if admission == lifecycle.AttemptAdmitted {
		s.Object.Status.Attempts++
	}
	r.driver.EnforceWorkTimeout(s, stepRestore, "restore")
	return admission != lifecycle.AttemptHeld, err
}

// startRestore starts restoring the objects, and returns the result when that has ended.
func (r *Reconciler) startRestore(ctx context.Context, s *scope) (*lifecycle.Result[restore.RunResult], error) {
	preferred, _, err := r.loadVersionPriorities(ctx, s)
	if err != nil {
		return nil, err
	}
	starts, err := r.hasBuiltinAction(ctx, s, func(builtin *v1alpha1.BuiltinExecutor) bool { return builtin.Quiesce != nil })
	if err != nil {
		return nil, err
	}
	hooks, err := r.hasBuiltinAction(ctx, s, lifecycle.RunsVeleroHooks)
	if err != nil {
		return nil, err
	}
	var key []byte
	if !s.Object.Spec.DryRun && !r.driver.HasStepStarted(s, stepRestore) {
		if key, err = r.ensureStampKey(ctx, s.Object.Namespace); err != nil {
			return nil, err
		}
	}
	resumed := s.Object.Status.Attempts > 1
	report, planned, source := r.driver.NewProgressReporter(s.Object), s.Object.Status.ItemActions, r.newBackupSource(s)
	namespace, rules := s.Object.Namespace, s.Object.Spec.ResourceModifier.DeepCopy()
	return lifecycle.ExecuteStepWithStore(r.driver, s, stepRestore, r.newRunnerRequest, func(ctx context.Context, store *storage.Store, request restore.RunRequest) (_ restore.RunResult, err error) {
		if request.Origin, err = source.readOrigin(ctx, r.Client); err != nil {
			return restore.RunResult{}, err
		}
		if err := lifecycle.WaitForPlugins(ctx, r.Client, r.Actions, planned); err != nil {
			return restore.RunResult{}, err
		}
		if err := r.addChanges(ctx, &request, namespace, rules); err != nil {
			return restore.RunResult{}, err
		}
		request.Engine.Resumed = resumed
		request.Engine.StampKey, request.Engine.StartsQuiesced, request.Engine.RunsPodHooks = key, starts, hooks
		request.Warnings = append(request.Warnings, preferred.warnings...)
		request.Engine.Progress, request.Engine.Priorities, request.Engine.PrioritizedResources = report, preferred.all, preferred.named
		return r.Runner.Restore(ctx, store, request)
	}), nil
}

// hasBuiltinAction reports whether a matching part of Grapnel executes an action after the restore. For
// a dry run it returns true: such a run has no actions, and needs no warning about what they would do.
func (r *Reconciler) hasBuiltinAction(ctx context.Context, s *scope, matches func(*v1alpha1.BuiltinExecutor) bool) (bool, error) {
	if s.Object.Spec.DryRun {
		return true, nil
	}
	return lifecycle.HasBuiltinAction(ctx, r.Client, s.Post, matches)
}

// reconcileOutcome stores the results of the operations, if there were any, and records the
// outcome.
func (r *Reconciler) reconcileOutcome(ctx context.Context, s *scope) (bool, error) {
	switch {
	case lifecycle.IsFinished(s.Object):
		return true, nil
	case lifecycle.HasProcessedItems(s.Object):
		return r.storeOperationResults(s), nil
	case s.IsCancelRequested() && !r.driver.HasStepStarted(s, stepRestore):
		s.RecordOutcome(s.CancelledOutcome(), r.Now())
		return true, nil
	}
	made, err := r.startRestore(ctx, s)
	if made == nil {
		return false, err
	}
	r.recordOutcome(s, made)
	return true, nil
}

// updateProgress copies the progress into the status, and returns a message about it.
func (r *Reconciler) updateProgress(o *v1alpha1.Restore) string {
	total, done, known := r.driver.Progress(o)
	if !known {
		return "Reading the archive"
	}
	o.Status.Progress = &v1alpha1.RestoreProgress{TotalItems: total, ItemsRestored: done}
	return fmt.Sprintf("Restoring: %d of %s", done, text.Pluralize(total, "object"))
}

// recordOutcome records the outcome of a restore.
func (r *Reconciler) recordOutcome(s *scope, made *lifecycle.Result[restore.RunResult]) {
	untold := errors.Is(made.Err, restore.ErrResultsNotStored)
	if made.Err != nil && !untold {
		r.recordFailedOutcome(s, made)
		return
	}
	r.recordItemCounts(&s.Object.Status, made.Value)
	if untold {
		r.recordResultsNotStored(s, v1alpha1.ReasonResultsNotStored, made.Err)
		if objectstore.IsUnwritable(made.Err) {
			recordResultsLost(s)
		}
	}
	at := made.Value.Completed
	if len(s.Operations) > 0 {
		at = r.Now() // the operations ended later
	}
	s.RecordOutcome(outcomeForCounts(s), at)
}

// outcomeForCounts returns the outcome that follows from the counts in the status.
func outcomeForCounts(s *scope) lifecycle.Outcome {
	status := &s.Object.Status
	o := lifecycle.Outcome{
		Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted,
		Message: describeCounts(status.Counts, s.Object.Spec.DryRun) + s.OperationsOutcomeText(),
	}
	if status.Errors > 0 {
		o.Phase, o.Reason = v1alpha1.RunPhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		described := lifecycle.DescribeErrors(&status.RunStatus)
		if !strings.Contains(described, "restore again") { // many errors say what to do
			described += "; fix the cause and restore again"
		}
		o.Message += "; " + described
	}
	if status.Warnings > 0 {
		o.Message += ", " + lifecycle.DescribeWarnings(&status.RunStatus)
	}
	return o
}

// recordFailedOutcome records the outcome of a restore that was not completed. Restored objects
// stay, so they are counted.
func (r *Reconciler) recordFailedOutcome(s *scope, made *lifecycle.Result[restore.RunResult]) {
	o := r.driver.FailedOutcome(s, "The restore failed", made.Err)
	if done := made.Value.Total(); done > 0 {
		status, of := &s.Object.Status, s.Object.Status.Progress
		r.recordItemCounts(status, made.Value)
		if of != nil {
			status.Progress.TotalItems = max(of.TotalItems, int64(done))
		}
		o.Message += "; " + describeCounts(status.Counts, s.Object.Spec.DryRun) + " before"
	}
	s.RecordOutcome(o, r.Now())
}

// recordItemCounts copies the counts of objects into the status.
func (r *Reconciler) recordItemCounts(status *v1alpha1.RestoreStatus, result restore.RunResult) {
	counts, total := result.Counts, int64(result.Total())
	status.Progress = &v1alpha1.RestoreProgress{TotalItems: total, ItemsRestored: total}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
	lifecycle.RecordProblems(&status.RunStatus, result.Problems, r.Redactor)
	status.Counts = &v1alpha1.RestoreCounts{
		Created: int64(counts[restore.Created]), Updated: int64(counts[restore.Updated]),
		Recreated: int64(counts[restore.Recreated]), Unchanged: int64(counts[restore.Unchanged]),
		Skipped: int64(counts[restore.Skipped]), Failed: int64(counts[restore.Failed]),
	}
}

// describeCounts returns the counts of objects by outcome as a message.
func describeCounts(counts *v1alpha1.RestoreCounts, dry bool) string {
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
