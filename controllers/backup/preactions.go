// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// preActions runs the PreBackup actions one after the other. One that fails ends
// the run before anything is archived.
func (r *Reconciler) preActions(_ context.Context, s *scope) (bool, error) {
	if decided(s.backup) {
		return true, nil
	}
	r.queue.acquire(s.backup, true)
	for _, run := range s.pre {
		switch {
		case succeeded(run):
			continue
		case terminal(run):
			s.decide(preFailure(s, run), r.Now())
		case s.stopping():
			r.want(s, run, v1alpha1.HookDesiredStateCancel)
			s.running(v1alpha1.ReasonCancelling, "Stopping PreBackup action "+run.Spec.PluginName)
			return false, nil
		default:
			if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
				r.want(s, run, v1alpha1.HookDesiredStateRun)
			}
			s.owe(run)
			s.running(v1alpha1.ReasonRunningPreActions, "Running PreBackup action "+run.Spec.PluginName)
			return false, nil
		}
		break
	}
	return true, nil
}

func terminal(run *v1alpha1.HookRun) bool { return run.Status.CompletionTimestamp != nil }

func succeeded(run *v1alpha1.HookRun) bool { return run.Status.Phase == v1alpha1.HookRunPhaseCompleted }

// preFailure is the outcome of a run whose PreBackup action did not end well.
func preFailure(s *scope, run *v1alpha1.HookRun) outcome {
	if s.stopping() && run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		return cancelled(s)
	}
	what := "failed"
	if run.Status.Phase != v1alpha1.HookRunPhaseFailed {
		what = "was cancelled"
	}
	return outcome{
		v1alpha1.BackupPhaseFailedPreBackupActions, v1alpha1.ReasonPreActionFailed,
		fmt.Sprintf("PreBackup action %s %s: %s; nothing was archived", run.Spec.PluginName, what, run.Status.Message),
	}
}

func cancelled(s *scope) outcome {
	return outcome{v1alpha1.BackupPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled: " + s.whyStopping()}
}

// ignored returns a warning for every failure that a policy covered.
func ignored(runs []*v1alpha1.HookRun) []string {
	var warnings []string
	for _, run := range runs {
		if c := conditions.Get(run, v1alpha1.ConditionSucceeded); c != nil && c.Reason == v1alpha1.ReasonIgnored {
			warnings = append(warnings, fmt.Sprintf("%s action %s: %s", run.Spec.Hook, run.Spec.PluginName, run.Status.Message))
		}
	}
	return warnings
}

// recordActions writes down how each planned action stands.
func (s *scope) recordActions() {
	s.backup.Status.PreBackupActionsStatuses = actionStatuses(s.pre)
	s.backup.Status.PostBackupActionsStatuses = actionStatuses(s.post)
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
