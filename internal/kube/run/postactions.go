// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// PostActions is the phase that runs the actions that the outcome asks for, one
// after the other. Owed clean-up that keeps failing does not hold up the others.
func (d *Driver[T]) PostActions(_ context.Context, s *Scope[T]) (bool, error) {
	for _, run := range slices.Concat(s.Pre, s.Post) {
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait && !s.needed(run) {
			d.want(s, run, v1alpha1.HookDesiredStateCancel)
		}
	}
	abandoned := s.Object.GetAnnotations()[v1alpha1.AnnotationAbandonCleanup] == "true"
	open := false
	for _, run := range s.Post {
		if terminal(run) {
			continue
		}
		open = true
		if !s.needed(run) {
			continue // it is being skipped
		}
		if run.Spec.Owed && abandoned {
			d.giveUp(s, run)
			continue
		}
		if s.interrupting(run) {
			d.want(s, run, v1alpha1.HookDesiredStateCancel)
			s.Finishing(v1alpha1.ReasonCancelling, "stopping "+action(run))
			continue
		}
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
			d.want(s, run, v1alpha1.HookDesiredStateRun)
		}
		s.Finishing(d.Kind.runningPost(), "running "+action(run))
		if !overBudget(run) {
			break
		}
	}
	return s.cleanUp(d.Now(), abandoned) && !open && !slices.ContainsFunc(s.Pre, pending), nil
}

func pending(run *v1alpha1.HookRun) bool { return !terminal(run) }

// needed says whether a HookRun has to run now that the outcome is known.
func (s *Scope[T]) needed(run *v1alpha1.HookRun) bool {
	switch {
	case run.Spec.Hook == s.kind.Pre():
		return false
	case run.Spec.Owed:
		pre := s.preOf(run)
		return pre != nil && pre.Status.StartTimestamp != nil
	}
	return len(run.Spec.RunOn) == 0 || slices.Contains(run.Spec.RunOn, classOf(s.Object.GetPhase()))
}

// interrupting says whether a person wants an action that nobody is owed to end:
// they asked after the outcome was known, so it is what runs now that they mean.
// Both ways to ask make a new generation; the outcome tells which one it knew.
func (s *Scope[T]) interrupting(run *v1alpha1.HookRun) bool {
	outcome := conditions.Get(s.Object, v1alpha1.ConditionSucceeded)
	return s.Stopping() && !run.Spec.Owed && outcome != nil && outcome.ObservedGeneration < s.Object.GetGeneration()
}

// preOf returns the other half of a pair.
func (s *Scope[T]) preOf(post *v1alpha1.HookRun) *v1alpha1.HookRun {
	for _, run := range s.Pre {
		if run.Spec.PluginName == post.Spec.PluginName {
			return run
		}
	}
	return nil
}

// classOf returns the class of an outcome that runOn speaks of.
func classOf(phase string) v1alpha1.Outcome {
	switch phase {
	case PhaseCompleted, PhasePartiallyFailed, PhaseCancelled:
		return v1alpha1.Outcome(phase)
	default:
		return v1alpha1.OutcomeFailed
	}
}

// overBudget says whether owed clean-up has used all the attempts it was given, without those
// that the end of an operator interrupted. It is tried on, and the others go first.
func overBudget(run *v1alpha1.HookRun) bool {
	if !run.Spec.Owed {
		return false
	}
	last := len(run.Status.Attempts) - 1
	return last >= 0 && run.Status.Attempts[last].CompletionTimestamp != nil && run.Status.Failures > run.Spec.Retries
}

// giveUp ends clean-up that a person gave up.
func (d *Driver[T]) giveUp(s *Scope[T], run *v1alpha1.HookRun) {
	d.patchRun(s, run, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAbandonCleanup: "true"}},
	})
	if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
		d.want(s, run, v1alpha1.HookDesiredStateRun)
	}
	d.want(s, run, v1alpha1.HookDesiredStateCancel)
	s.Finishing(v1alpha1.ReasonCancelling, "giving up the clean-up by "+run.Spec.PluginName)
}

// owe records that an action which is about to start must be undone.
func (s *Scope[T]) owe(pre *v1alpha1.HookRun) {
	for _, run := range s.Post {
		if run.Spec.Owed && run.Spec.PluginName == pre.Spec.PluginName {
			conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending,
				action(run)+" must run, whatever happens")
		}
	}
}

// cleanUp says what is still owed, and returns whether nothing is.
func (s *Scope[T]) cleanUp(now time.Time, abandoned bool) bool {
	var owed, lost []string
	overdue := false
	for _, run := range s.Post {
		if !run.Spec.Owed || !s.needed(run) || succeeded(run) {
			continue
		}
		what := action(run)
		if run.Status.Message != "" {
			what += " (" + run.Status.Message + ")"
		}
		switch late, left := deadline(run, now); {
		case abandoned && terminal(run):
			lost = append(lost, what)
			continue
		case terminal(run), late:
			overdue = true
		case left > 0:
			s.Again(left)
		}
		owed = append(owed, what)
	}
	set := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, status, reason, Short(message))
	}
	switch {
	case len(owed) > 0 && overdue:
		message := fmt.Sprintf("clean-up is overdue and tried again and again: %s; mend what it needs, or annotate the %s with %s=true to give it up",
			strings.Join(owed, ", "), s.kind.Name, v1alpha1.AnnotationAbandonCleanup)
		set(metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue, message)
		s.Finishing(v1alpha1.ReasonCleanupOverdue, message)
		conditions.Summary(s.Object, conditions.StalledRetrying, v1alpha1.ReasonCleanupOverdue, Short(message))
	case len(owed) > 0:
		set(metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, strings.Join(owed, ", ")+" must run, whatever happens")
	case len(lost) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonCleanupAbandoned, "given up with the annotation: "+strings.Join(lost, ", "))
	case conditions.IsTrue(s.Object, v1alpha1.ConditionCleanupOwed):
		set(metav1.ConditionFalse, v1alpha1.ReasonCleanupDone, "nothing is owed any more")
	}
	return len(owed) == 0
}

// deadline says whether owed clean-up should have ended by now, and how long it
// still has. It counts from its own start.
func deadline(run *v1alpha1.HookRun, now time.Time) (late bool, left time.Duration) {
	if run.Status.StartTimestamp == nil {
		return false, 0
	}
	budget := run.Spec.Timeout.Duration * time.Duration(run.Spec.Retries+1)
	left = run.Status.StartTimestamp.Add(budget).Sub(now)
	return left <= 0, left
}

// Started says whether any of the actions was called.
func Started(runs []*v1alpha1.HookRun) bool {
	return slices.ContainsFunc(runs, func(run *v1alpha1.HookRun) bool { return run.Status.StartTimestamp != nil })
}

// JudgePostActions says whether the Post actions that ran did well. It does not
// change the outcome.
func (s *Scope[T]) JudgePostActions() {
	if !Started(s.Post) {
		return
	}
	var failed []string
	for _, run := range s.Post {
		if run.Status.Phase == v1alpha1.HookRunPhaseFailed || run.Status.Phase == v1alpha1.HookRunPhaseCancelled {
			failed = append(failed, fmt.Sprintf("%s (%s)", run.Spec.PluginName, run.Status.Message))
		}
	}
	status, reason, message := metav1.ConditionTrue, s.kind.postSucceeded(), fmt.Sprintf("Every %s action that ran did well", s.kind.Post())
	if len(failed) > 0 {
		status, reason = metav1.ConditionFalse, s.kind.postActionFailed()
		message = Short(fmt.Sprintf("%s action failed: %s", s.kind.Post(), strings.Join(failed, ", ")))
	}
	conditions.Set(s.Object, v1alpha1.ConditionPostActionsSucceeded, status, reason, message)
}
