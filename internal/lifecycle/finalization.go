// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// StepPostLog is the step that uploads the log of the Post actions.
const StepPostLog = "postlog"

// AwaitPostActionLog reconciles what holds a finished run: it stores the log of its Post actions
// by the step StepPostLog that upload executes. It returns whether there is such a log, and
// whether the run owes nothing more.
func (d *Driver[T]) AwaitPostActionLog(s *Scope[T], upload func(*Scope[T]) *Result[bool]) (hasLog, ready bool) {
	s.SetPostActionsCondition()
	if HasStartedHookRun(s.Post) {
		uploaded := upload(s)
		if AwaitUploadStep(d, s, StepPostLog, fmt.Sprintf("storing the log of the %s actions", d.Kind.PostHookPoint), uploaded) {
			return false, false
		}
		hasLog = uploaded.Value
	}
	return hasLog, !s.CleanupPending
}

// ReconcileFinalized reconciles a finalized run: it records Post actions that users retry, and removes the
// finalizer.
func (d *Driver[T]) ReconcileFinalized(ctx context.Context, object T) error {
	if err := d.recordRetriedPostActions(ctx, object); err != nil {
		return ignoreConflictAndNotFound(err)
	}
	return d.RemoveFinalizer(ctx, object)
}

// recordRetriedPostActions records the state of Post actions that users retry after their run is finalized.
// The run stays finalized meanwhile. The finalizer of a HookRun is removed before its end is recorded, so
// that a HookRun whose end is recorded has none.
func (d *Driver[T]) recordRetriedPostActions(ctx context.Context, object T) error {
	_, recorded := object.ActionsStatuses()
	if *recorded == nil || !slices.ContainsFunc(**recorded, isActionFailedOrRetried) {
		return nil
	}
	s := newScope(d.Kind, object)
	if err := d.listPlannedHookRuns(ctx, s); err != nil {
		return err
	}
	actions, changed, running := newActionStatuses(s.Post), false, []string(nil)
	for i, run := range s.Post {
		if isHookRunRetried(run) {
			running = append(running, "running "+describeAction(run))
		}
		if run.Status.LastIntervention == nil || equality.Semantic.DeepEqual((*actions)[i], (**recorded)[i]) {
			(*actions)[i] = (**recorded)[i]
			continue
		}
		if run.Status.Removing {
			return nil // the watch delivers the end of that
		}
		changed = true
		if isHookRunRetried(run) {
			continue
		}
		if err := d.removeHookRunFinalizer(ctx, run); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	*recorded = actions
	if len(running) == 0 {
		s.SetPostActionsCondition()
		s.AfterStatusUpdate(func(context.Context) error {
			d.Logs.Remove(string(object.GetUID()))
			return nil
		})
	}
	s.MarkFinalized()
	if len(running) > 0 {
		object.Run().Message = TruncateMessage(OutcomeMessage(object) + "; " + strings.Join(running, "; "))
	}
	return d.patchStatus(ctx, s)
}

// isActionFailedOrRetried reports whether a user may have retried an action after its run was finalized.
func isActionFailedOrRetried(action v1alpha1.ActionStatus) bool {
	return action.Phase == v1alpha1.ActionPhaseFailed || action.Phase == v1alpha1.ActionPhaseInProgress
}

// isHookRunRetried reports whether an action runs that a user retries. It is only meaningful for a finalized
// run, all of whose other actions have ended.
func isHookRunRetried(run *v1alpha1.HookRun) bool {
	return run.Status.LastIntervention != nil && run.Status.Attempt > 0 && isHookRunUnfinished(run)
}

// Finalize records that nothing is owed, and then removes the finalizer.
func (d *Driver[T]) Finalize(s *Scope[T]) {
	s.MarkFinalized()
	s.AfterStatusUpdate(func(ctx context.Context) error { return d.RemoveFinalizer(ctx, s.Object) })
}
