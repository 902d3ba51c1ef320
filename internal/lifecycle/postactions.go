// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// RunPostActions is the ReconcileFunc that runs the actions that match the outcome, one after the
// other. Owed clean-up that keeps failing does not block the others.
func (d *Driver[T]) RunPostActions(_ context.Context, s *Scope[T]) (bool, error) {
	for _, run := range slices.Concat(s.Pre, s.Post) {
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait && !s.isHookRunNeeded(run) {
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateCancel)
		}
	}
	abandoned := s.isCleanupAbandoned()
	open := d.runActions(s, s.Post, s.ReportRemainingWork)
	return s.updateCleanupOwed(d.Now(), abandoned) && !open && !slices.ContainsFunc(s.Pre, isHookRunUnfinished), nil
}

// runDataCapturedActions runs the Post actions that wait for captured data, if all of it is. Nothing
// waits for them: those that have not ended when the outcome is known are continued by
// RunPostActions. It returns what is running, "" if nothing is.
//
// A run that is being canceled needs no more data, so its applications need not wait either.
// Before the archive is complete that does not matter: it would be written again after a restart.
func (d *Driver[T]) runDataCapturedActions(s *Scope[T]) (running string) {
	counts := s.Object.Run().Operations
	if !HasProcessedItems(s.Object) || counts == nil || counts.Capturing > 0 && !s.IsCancelRequested() {
		return ""
	}
	d.runActions(s, s.dataCapturedActions(), func(_, message string) { running = message })
	s.updateCleanupOwed(d.Now(), s.isCleanupAbandoned())
	return running
}

// dataCapturedActions returns the Post actions that wait for captured data. A plan has them first.
func (s *Scope[T]) dataCapturedActions() []*v1alpha1.HookRun {
	isLater := func(run *v1alpha1.HookRun) bool { return run.Spec.RunAfter != v1alpha1.RunAfterDataCaptured }
	if i := slices.IndexFunc(s.Post, isLater); i >= 0 {
		return s.Post[:i]
	}
	return s.Post
}

// isCleanupAbandoned reports whether a user abandoned the owed clean-up of the run.
func (s *Scope[T]) isCleanupAbandoned() bool {
	return s.Object.GetAnnotations()[v1alpha1.AnnotationAbandonCleanup] == "true"
}

// runActions runs Post actions one after the other, and reports what the run does. It returns
// whether one has not ended.
func (d *Driver[T]) runActions(s *Scope[T], actions []*v1alpha1.HookRun, report func(reason, message string)) (open bool) {
	for _, run := range actions {
		if isHookRunFinished(run) {
			continue
		}
		open = true
		if !s.isHookRunNeeded(run) {
			continue // it is being skipped
		}
		if s.awaitingPlugin[run.Name] {
			report(v1alpha1.ReasonWaitingForPlugins, describeAction(run)+" waits: "+run.Status.Message)
			continue
		}
		if run.Spec.Owed && s.isCleanupAbandoned() {
			d.abandonCleanup(s, run, report)
			continue
		}
		if s.isCancelRequestedAfterOutcome(run) {
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateCancel)
			report(v1alpha1.ReasonCancelling, "canceling "+describeAction(run))
			continue
		}
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
			d.setDesiredState(s, run, v1alpha1.HookDesiredStateRun)
		}
		report(d.Kind.RunningPost, "running "+describeAction(run))
		if !hasExhaustedRetries(run) {
			break
		}
	}
	return open
}

func isHookRunUnfinished(run *v1alpha1.HookRun) bool { return !isHookRunFinished(run) }

// isHookRunNeeded reports whether a HookRun has to run now that the outcome is known.
func (s *Scope[T]) isHookRunNeeded(run *v1alpha1.HookRun) bool {
	switch {
	case run.Spec.Hook == s.kind.PreHookPoint:
		return false
	case run.Spec.Owed:
		pre := s.preHookRunFor(run)
		return pre != nil && pre.Status.StartTimestamp != nil
	}
	return len(run.Spec.RunOn) == 0 || slices.Contains(run.Spec.RunOn, outcomeForPhase(s.Object.GetPhase()))
}

// isCancelRequestedAfterOutcome reports whether a user wants to cancel an action that is not
// owed. A cancel request that came after the outcome refers to the actions that are running now.
// Both ways to request it create a new generation of the object, and the outcome has the
// generation it observed.
func (s *Scope[T]) isCancelRequestedAfterOutcome(run *v1alpha1.HookRun) bool {
	outcome := conditions.Get(s.Object, v1alpha1.ConditionSucceeded)
	return s.IsCancelRequested() && !run.Spec.Owed && outcome != nil && outcome.ObservedGeneration < s.Object.GetGeneration()
}

// preHookRunFor returns the other half of a pair.
func (s *Scope[T]) preHookRunFor(post *v1alpha1.HookRun) *v1alpha1.HookRun {
	for _, run := range s.Pre {
		if run.Spec.ActionName == post.Spec.ActionName {
			return run
		}
	}
	return nil
}

// outcomeForPhase returns the value of runOn that matches a phase.
func outcomeForPhase(phase v1alpha1.RunPhase) v1alpha1.Outcome {
	switch phase {
	case v1alpha1.RunPhaseCompleted:
		return v1alpha1.OutcomeCompleted
	case v1alpha1.RunPhasePartiallyFailed:
		return v1alpha1.OutcomePartiallyFailed
	case v1alpha1.RunPhaseCancelled:
		return v1alpha1.OutcomeCancelled
	default:
		return v1alpha1.OutcomeFailed
	}
}

// hasExhaustedRetries reports whether owed clean-up has used all its attempts. Attempts that the
// end of an operator interrupted do not count. The clean-up is still retried, but the others go
// first.
func hasExhaustedRetries(run *v1alpha1.HookRun) bool {
	if !run.Spec.Owed {
		return false
	}
	last := len(run.Status.Attempts) - 1
	return last >= 0 && run.Status.Attempts[last].CompletionTimestamp != nil && run.Status.Failures > run.Spec.Retries
}

// abandonCleanup ends clean-up that a user abandoned.
func (d *Driver[T]) abandonCleanup(s *Scope[T], run *v1alpha1.HookRun, report func(reason, message string)) {
	d.patchHookRun(s, run, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAbandonCleanup: "true"}},
	})
	if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
		d.setDesiredState(s, run, v1alpha1.HookDesiredStateRun)
	}
	d.setDesiredState(s, run, v1alpha1.HookDesiredStateCancel)
	report(v1alpha1.ReasonCancelling, "abandoning the clean-up by "+run.Spec.ActionName)
}

// markCleanupOwed records that an action which is about to start must be undone.
func (s *Scope[T]) markCleanupOwed(pre *v1alpha1.HookRun) {
	for _, run := range s.Post {
		if run.Spec.Owed && run.Spec.ActionName == pre.Spec.ActionName && !intervention.IsSkipped(run) {
			conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending,
				describeAction(run)+" must run, whatever happens")
		}
	}
}

// updateCleanupOwed records which clean-up is still owed, and reports whether there is none.
func (s *Scope[T]) updateCleanupOwed(now time.Time, abandoned bool) bool {
	d := s.collectOwedCleanup(now, abandoned)
	set := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, status, reason, TruncateMessage(message))
	}
	stall := func(reason, message string) {
		set(metav1.ConditionTrue, reason, message)
		if !IsFinished(s.Object) {
			return // the summary says what the run does
		}
		s.ReportRemainingWork(reason, message)
		conditions.SetSummary(s.Object, conditions.StalledRetrying, reason, TruncateMessage(message))
	}
	switch {
	case len(d.lost) > 0:
		message := fmt.Sprintf("clean-up is lost: %s; undo manually what it would have undone, then annotate the %s with %s=true",
			strings.Join(d.lost, ", "), s.kind.Name, v1alpha1.AnnotationAbandonCleanup)
		if len(d.owed) > 0 {
			message += ", which also abandons: " + strings.Join(d.owed, ", ")
		}
		stall(v1alpha1.ReasonCleanupLost, message)
	case d.overdue:
		stall(v1alpha1.ReasonCleanupOverdue, fmt.Sprintf(
			"clean-up is overdue and being retried: %s; fix the cause, or annotate the %s with %s=true to abandon it",
			strings.Join(d.owed, ", "), s.kind.Name, v1alpha1.AnnotationAbandonCleanup))
	case len(d.owed) > 0:
		set(metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, strings.Join(d.owed, ", ")+" must run, whatever happens")
	case len(d.abandoned) > 0:
		how := "abandoned: "
		if abandoned {
			how = "abandoned with the annotation: "
		}
		set(metav1.ConditionFalse, v1alpha1.ReasonCleanupAbandoned, how+strings.Join(d.abandoned, ", "))
	case conditions.IsTrue(s.Object, v1alpha1.ConditionCleanupOwed):
		set(metav1.ConditionFalse, v1alpha1.ReasonCleanupDone, "no clean-up is owed anymore")
	}
	return len(d.owed)+len(d.lost) == 0
}

// owedCleanup has descriptions of the owed actions that did not complete.
type owedCleanup struct {
	owed, lost, abandoned []string
	// overdue means that one of owed should have ended by now.
	overdue bool
}

// collectOwedCleanup finds the owed actions that did not complete. It requeues the run for when
// the first of them becomes overdue.
func (s *Scope[T]) collectOwedCleanup(now time.Time, abandoned bool) owedCleanup {
	var d owedCleanup
	for _, run := range s.Post {
		if !run.Spec.Owed || !s.isHookRunNeeded(run) || isHookRunCompleted(run) {
			continue
		}
		what := describeAction(run)
		if run.Status.Message != "" {
			what += " (" + run.Status.Message + ")"
		}
		switch late, left := cleanupTimeLeft(run, now); {
		case isHookRunFinished(run) && (abandoned || intervention.IsSkipped(run)):
			d.abandoned = append(d.abandoned, what)
			continue
		case isHookRunFinished(run) && run.UID == "": // see reconstructHookRun
			d.lost = append(d.lost, what)
			s.RequeueAfter(lostCleanupRecheckInterval)
			continue
		case isHookRunFinished(run), late:
			d.overdue = true
		case left > 0:
			s.RequeueAfter(left)
		}
		d.owed = append(d.owed, what)
	}
	return d
}

// lostCleanupRecheckInterval is the time between two checks whether lost clean-up can run: its
// Plugin may be recreated.
const lostCleanupRecheckInterval = time.Minute

// cleanupTimeLeft reports whether owed clean-up is late, and otherwise how much time it has
// left. The time counts from the start of the clean-up. The result is never longer than the
// whole budget, because the clock may have been set back since the start was recorded.
func cleanupTimeLeft(run *v1alpha1.HookRun, now time.Time) (late bool, left time.Duration) {
	if run.Status.StartTimestamp == nil {
		return false, 0
	}
	budget := run.Spec.Timeout.Duration * time.Duration(run.Spec.Retries+1)
	left = min(budget, run.Status.StartTimestamp.Add(budget).Sub(now))
	return left <= 0, left
}

// HasStartedHookRun reports whether any of the actions was called.
func HasStartedHookRun(runs []*v1alpha1.HookRun) bool {
	return slices.ContainsFunc(runs, func(run *v1alpha1.HookRun) bool { return run.Status.StartTimestamp != nil })
}

// SetPostActionsCondition records whether the Post actions that ran succeeded. The outcome does
// not change.
func (s *Scope[T]) SetPostActionsCondition() {
	if !HasStartedHookRun(s.Post) {
		return
	}
	var failed []string
	for _, run := range s.Post {
		if run.Status.Phase == v1alpha1.HookRunPhaseFailed || run.Status.Phase == v1alpha1.HookRunPhaseCancelled {
			failed = append(failed, fmt.Sprintf("%s (%s)", run.Spec.ActionName, run.Status.Message))
		}
	}
	status, reason, message := metav1.ConditionTrue, s.kind.PostActionsSucceeded, fmt.Sprintf("Every %s action that ran succeeded", s.kind.PostHookPoint)
	if len(failed) > 0 {
		status, reason = metav1.ConditionFalse, s.kind.PostActionFailed
		message = TruncateMessage(fmt.Sprintf("%s action failed: %s", s.kind.PostHookPoint, strings.Join(failed, ", ")))
	}
	conditions.Set(s.Object, v1alpha1.ConditionPostActionsSucceeded, status, reason, message)
}
