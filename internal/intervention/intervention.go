// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intervention has the rules for users who retry or skip one action of a run.
package intervention

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// UnhandledRequest returns the intervention of a HookRun that the operator has not handled yet; nil if
// there is none.
func UnhandledRequest(run *v1alpha1.HookRun) *v1alpha1.HookIntervention {
	wanted, last := run.Spec.Intervention, run.Status.LastIntervention
	if wanted == nil || (last != nil && last.ID == wanted.ID) {
		return nil
	}
	return wanted
}

// RefusalReason returns why a HookRun cannot be retried or skipped now; empty if it can.
func RefusalReason(run *v1alpha1.HookRun, request v1alpha1.HookInterventionType) string {
	finished := run.Status.CompletionTimestamp != nil
	switch {
	case request == v1alpha1.HookInterventionRetry && finished:
		return retryRefusalAfterEnd(run)
	case request == v1alpha1.HookInterventionRetry:
		return retryRefusal(run)
	case finished && !isCleanupUndone(run):
		return fmt.Sprintf("it is %s already", run.Status.Phase)
	case run.Spec.Owed && run.Status.StartTimestamp == nil && !finished:
		// Otherwise the action that it undoes would still start, and nothing would be owed.
		return "it is clean-up that has not begun; skip the action that it undoes, or wait until it runs"
	}
	return ""
}

// isCleanupUndone reports whether a finished HookRun is owed clean-up that did not succeed.
func isCleanupUndone(run *v1alpha1.HookRun) bool {
	return run.Spec.Owed && (run.Status.Phase == v1alpha1.HookRunPhaseFailed || run.Status.Phase == v1alpha1.HookRunPhaseCancelled)
}

// retryRefusalAfterEnd returns why a finished HookRun cannot be retried. The outcome of a run depends on its
// actions before the work.
func retryRefusalAfterEnd(run *v1alpha1.HookRun) string {
	isPost := run.Spec.Hook == v1alpha1.HookPostBackup || run.Spec.Hook == v1alpha1.HookPostRestore
	switch {
	case run.Status.Phase != v1alpha1.HookRunPhaseFailed:
		return fmt.Sprintf("it is %s; only failed actions can be retried", run.Status.Phase)
	case !isPost:
		return fmt.Sprintf("the outcome of %s %s is recorded and does not change; create a new %s",
			run.Spec.ParentRef.Kind, run.Spec.ParentRef.Name, run.Spec.ParentRef.Kind)
	case run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel:
		return "it was canceled"
	}
	return ""
}

// retryRefusal returns why an unfinished HookRun cannot be retried now.
func retryRefusal(run *v1alpha1.HookRun) string {
	switch {
	case run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel && !run.Spec.Owed:
		return "it was canceled"
	case run.Status.StartTimestamp == nil:
		return "it waits for its turn and has not failed"
	case run.Status.NextCallTimestamp == nil:
		return "it is running"
	}
	return ""
}

// IsSkipping reports whether a skip of the HookRun was accepted, and the HookRun has not finished yet.
func IsSkipping(run *v1alpha1.HookRun) bool {
	last := run.Status.LastIntervention
	return run.Status.CompletionTimestamp == nil && last != nil &&
		last.Type == v1alpha1.HookInterventionSkip && last.Outcome == v1alpha1.HookInterventionAccepted
}

// IsSkipped reports whether the HookRun has finished because a user skipped it.
func IsSkipped(run *v1alpha1.HookRun) bool {
	succeeded := conditions.Get(run, v1alpha1.ConditionSucceeded)
	return run.Status.Phase == v1alpha1.HookRunPhaseSkipped && succeeded != nil && succeeded.Reason == v1alpha1.ReasonSkippedByUser
}

// skipMessagePrefix begins the message of each HookRun that a user skipped, and of no other.
const skipMessagePrefix = "Skipped by "

// IsSkipMessage reports whether the message of a skipped HookRun is that of one which a user skipped.
func IsSkipMessage(message string) bool { return strings.HasPrefix(message, skipMessagePrefix) }

// FormatMessage returns by whom and why a HookRun is retried or skipped, for people.
func FormatMessage(handled *v1alpha1.HandledHookIntervention) string {
	prefix := skipMessagePrefix
	if handled.Type == v1alpha1.HookInterventionRetry {
		prefix = "Retried by "
	}
	return executor.OneLine(prefix + handled.User + ": " + handled.Reason)
}
