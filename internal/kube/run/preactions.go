// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// PreActions is the phase that runs the actions before the work, one after the
// other. One that fails ends the run before anything is done.
func (d *Driver[T]) PreActions(_ context.Context, s *Scope[T]) (bool, error) {
	if Decided(s.Object) {
		return true, nil
	}
	if Processed(s.Object) {
		d.queue.park(s.Object)
	} else {
		d.queue.acquire(s.Object, true)
	}
	for _, run := range s.Pre {
		switch {
		case succeeded(run):
			continue
		case terminal(run):
			s.Decide(s.preFailure(run), d.Now())
		case s.Stopping():
			d.want(s, run, v1alpha1.HookDesiredStateCancel)
			s.Running(v1alpha1.ReasonCancelling, "Stopping "+action(run))
			return false, nil
		default:
			if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
				d.want(s, run, v1alpha1.HookDesiredStateRun)
			}
			s.owe(run)
			s.Running(d.Kind.runningPre(), "Running "+action(run))
			return false, nil
		}
		break
	}
	return true, nil
}

// action names what a HookRun executes.
func action(run *v1alpha1.HookRun) string {
	return string(run.Spec.Hook) + " action " + run.Spec.PluginName
}

func terminal(run *v1alpha1.HookRun) bool { return run.Status.CompletionTimestamp != nil }

func succeeded(run *v1alpha1.HookRun) bool { return run.Status.Phase == v1alpha1.HookRunPhaseCompleted }

// preFailure is the outcome of a run whose Pre action did not end well.
func (s *Scope[T]) preFailure(run *v1alpha1.HookRun) Outcome {
	if s.Stopping() && run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		return s.CancelledOutcome()
	}
	what := "failed"
	if run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		what = "was cancelled"
	}
	return Outcome{
		s.kind.preFailed(), s.kind.preActionFailed(),
		fmt.Sprintf("%s %s: %s; %s", action(run), what, run.Status.Message, s.kind.NothingDone),
	}
}

// Ignored returns a warning for every failure that a policy covered.
func Ignored(runs []*v1alpha1.HookRun) []string {
	var warnings []string
	for _, run := range runs {
		if c := conditions.Get(run, v1alpha1.ConditionSucceeded); c != nil && c.Reason == v1alpha1.ReasonIgnored {
			warnings = append(warnings, fmt.Sprintf("%s: %s", action(run), run.Status.Message))
		}
	}
	return warnings
}

// Outputs returns what actions answered, by registered name.
func Outputs(runs []*v1alpha1.HookRun) map[string]map[string]string {
	byName := map[string]map[string]string{}
	for _, run := range runs {
		if len(run.Status.Outputs) > 0 {
			byName[run.Spec.PluginName] = PlainMap(run.Status.Outputs)
		}
	}
	return byName
}

// recordActions writes down how each planned action stands.
func (s *Scope[T]) recordActions() {
	pre, post := s.Object.ActionsStatuses()
	*pre, *post = actionStatuses(s.Pre), actionStatuses(s.Post)
}

func actionStatuses(runs []*v1alpha1.HookRun) *[]v1alpha1.ActionStatus {
	if len(runs) == 0 {
		return nil
	}
	list := make([]v1alpha1.ActionStatus, len(runs))
	for i, run := range runs {
		list[i] = v1alpha1.ActionStatus{
			PluginName: run.Spec.PluginName, HookRunName: run.Name, Phase: actionPhase(run), Message: run.Status.Message,
			StartTimestamp: run.Status.StartTimestamp, CompletionTimestamp: run.Status.CompletionTimestamp,
		}
	}
	return &list
}

// actionPhase translates the phase of a HookRun. What was skipped never had one.
func actionPhase(run *v1alpha1.HookRun) v1alpha1.ActionPhase {
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
