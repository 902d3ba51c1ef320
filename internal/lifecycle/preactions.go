// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// RunPreActions is the ReconcileFunc that runs the actions before the work, one after the other.
// If one of them fails, the run ends before the work starts.
func (d *Driver[T]) RunPreActions(_ context.Context, s *Scope[T]) (bool, error) {
	if IsFinished(s.Object) {
		return true, nil
	}
	if HasProcessedItems(s.Object) {
		d.queue.releaseSlot(s.Object)
	} else {
		d.queue.acquireSlot(s.Object, true)
	}
	for _, run := range s.Pre {
		switch {
		case isHookRunCompleted(run), intervention.IsSkipped(run):
			continue
		case isHookRunFinished(run):
			s.RecordOutcome(s.outcomeForFailedPre(run), d.Now())
		case s.IsCancelRequested():
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateCancel)
			s.MarkRunning(v1alpha1.ReasonCancelling, "Canceling "+describeAction(run))
			return false, nil
		default:
			if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
				d.setDesiredState(s, run, v1alpha1.HookDesiredStateRun)
			}
			s.markCleanupOwed(run)
			s.MarkRunning(d.Kind.RunningPre, "Running "+describeAction(run))
			return false, nil
		}
		break
	}
	return true, nil
}

// ReacquireSlot acquires a slot for a run that has started, even if all slots are taken: the run
// had one before the operator restarted.
func (d *Driver[T]) ReacquireSlot(s *Scope[T]) { d.queue.acquireSlot(s.Object, true) }

// describeAction returns a description of the action that a HookRun executes.
func describeAction(run *v1alpha1.HookRun) string {
	return string(run.Spec.Hook) + " action " + run.Spec.ActionName
}

func isHookRunFinished(run *v1alpha1.HookRun) bool { return run.Status.CompletionTimestamp != nil }

func isHookRunCompleted(run *v1alpha1.HookRun) bool {
	return run.Status.Phase == v1alpha1.HookRunPhaseCompleted
}

// outcomeForFailedPre returns the outcome of a run whose Pre action did not complete.
func (s *Scope[T]) outcomeForFailedPre(run *v1alpha1.HookRun) Outcome {
	if s.IsCancelRequested() && run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		return s.CancelledOutcome()
	}
	what := "failed"
	if run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		what = "was canceled"
	}
	return Outcome{
		s.kind.FailedPrePhase, s.kind.PreActionFailed,
		fmt.Sprintf("%s %s: %s; %s", describeAction(run), what, run.Status.Message, s.kind.NothingDoneMessage),
	}
}

// IgnoredFailureWarnings returns a warning for each failure that a failure policy ignores, and for each
// action that a user skipped.
func IgnoredFailureWarnings(runs []*v1alpha1.HookRun) []string {
	var warnings []string
	for _, run := range runs {
		c := conditions.Get(run, v1alpha1.ConditionSucceeded)
		if (c != nil && c.Reason == v1alpha1.ReasonIgnored) || intervention.IsSkipped(run) {
			warnings = append(warnings, fmt.Sprintf("%s: %s", describeAction(run), run.Status.Message))
		}
	}
	return warnings
}

// OutputsByAction returns the outputs of actions by registered name.
func OutputsByAction(runs []*v1alpha1.HookRun) map[string]map[string]string {
	byName := map[string]map[string]string{}
	for _, run := range runs {
		if len(run.Status.Outputs) > 0 {
			byName[run.Spec.ActionName] = ToStringMap(run.Status.Outputs)
		}
	}
	return byName
}

// recordActionStatuses records the state of each planned action.
func (s *Scope[T]) recordActionStatuses() {
	pre, post := s.Object.ActionsStatuses()
	*pre, *post = newActionStatuses(s.Pre), newActionStatuses(s.Post)
}

func newActionStatuses(runs []*v1alpha1.HookRun) *[]v1alpha1.ActionStatus {
	if len(runs) == 0 {
		return nil
	}
	list := make([]v1alpha1.ActionStatus, len(runs))
	for i, run := range runs {
		list[i] = v1alpha1.ActionStatus{
			PluginName: run.Spec.ActionName, Plugin: run.Spec.PluginRef.Name, HookRunName: run.Name, Phase: toActionPhase(run), Message: run.Status.Message,
			StartTimestamp: run.Status.StartTimestamp, CompletionTimestamp: run.Status.CompletionTimestamp,
		}
	}
	return &list
}

// toActionPhase converts the phase of a HookRun. Skipped actions have no phase.
func toActionPhase(run *v1alpha1.HookRun) v1alpha1.ActionPhase {
	switch run.Status.Phase {
	case v1alpha1.HookRunPhaseInProgress:
		return v1alpha1.ActionPhaseInProgress
	case v1alpha1.HookRunPhaseCompleted:
		return v1alpha1.ActionPhaseCompleted
	case v1alpha1.HookRunPhaseFailed, v1alpha1.HookRunPhaseCancelled:
		return v1alpha1.ActionPhaseFailed
	default:
		return ""
	}
}
