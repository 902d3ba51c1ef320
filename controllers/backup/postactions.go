// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

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

// postActions runs the PostBackup actions that the outcome asks for, one after
// the other. Owed clean-up that keeps failing does not hold up the others.
func (r *Reconciler) postActions(_ context.Context, s *scope) (bool, error) {
	for _, run := range slices.Concat(s.pre, s.post) {
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait && !s.needed(run) {
			r.want(s, run, v1alpha1.HookDesiredStateCancel)
		}
	}
	abandoned := s.backup.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true"
	open := false
	for _, run := range s.post {
		if terminal(run) {
			continue
		}
		open = true
		if !s.needed(run) {
			continue // it is being skipped
		}
		if run.Spec.Owed && abandoned {
			r.giveUp(s, run)
			continue
		}
		if s.interrupting(run) {
			r.want(s, run, v1alpha1.HookDesiredStateCancel)
			s.finishing(v1alpha1.ReasonCancelling, "stopping PostBackup action "+run.Spec.PluginName)
			continue
		}
		if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
			r.want(s, run, v1alpha1.HookDesiredStateRun)
		}
		s.finishing(v1alpha1.ReasonRunningPostActions, "running PostBackup action "+run.Spec.PluginName)
		if !overBudget(run) {
			break
		}
	}
	return s.cleanUp(r.Now(), abandoned) && !open && !slices.ContainsFunc(s.pre, pending), nil
}

func pending(run *v1alpha1.HookRun) bool { return !terminal(run) }

// needed says whether a HookRun has to run now that the outcome is known.
func (s *scope) needed(run *v1alpha1.HookRun) bool {
	switch {
	case run.Spec.Hook == v1alpha1.HookPreBackup:
		return false
	case run.Spec.Owed:
		pre := s.preOf(run)
		return pre != nil && pre.Status.StartTimestamp != nil
	}
	return len(run.Spec.RunOn) == 0 || slices.Contains(run.Spec.RunOn, outcomeOf(s.backup))
}

// interrupting says whether a person wants an action that nobody is owed to end:
// they asked after the outcome was known, so it is what runs now that they mean.
func (s *scope) interrupting(run *v1alpha1.HookRun) bool {
	return s.stopping() && !run.Spec.Owed && s.backup.Status.Phase != v1alpha1.BackupPhaseCancelled
}

// preOf returns the other half of a pair.
func (s *scope) preOf(post *v1alpha1.HookRun) *v1alpha1.HookRun {
	for _, run := range s.pre {
		if run.Spec.PluginName == post.Spec.PluginName {
			return run
		}
	}
	return nil
}

// outcomeOf returns the class of an outcome that runOn speaks of.
func outcomeOf(b *v1alpha1.Backup) v1alpha1.Outcome {
	switch b.Status.Phase {
	case v1alpha1.BackupPhaseCompleted:
		return v1alpha1.OutcomeCompleted
	case v1alpha1.BackupPhasePartiallyFailed:
		return v1alpha1.OutcomePartiallyFailed
	case v1alpha1.BackupPhaseCancelled:
		return v1alpha1.OutcomeCancelled
	default:
		return v1alpha1.OutcomeFailed
	}
}

// overBudget says whether owed clean-up has used all the attempts it was given.
// It is tried on, and the others go first.
func overBudget(run *v1alpha1.HookRun) bool {
	if !run.Spec.Owed {
		return false
	}
	last := len(run.Status.Attempts) - 1
	return last >= 0 && run.Status.Attempts[last].CompletionTimestamp != nil && run.Status.Attempt > run.Spec.Retries
}

// giveUp ends clean-up that a person gave up.
func (r *Reconciler) giveUp(s *scope, run *v1alpha1.HookRun) {
	r.patchRun(s, run, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationAbandonCleanup: "true"}},
	})
	if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait {
		r.want(s, run, v1alpha1.HookDesiredStateRun)
	}
	r.want(s, run, v1alpha1.HookDesiredStateCancel)
	s.finishing(v1alpha1.ReasonCancelling, "giving up the clean-up by "+run.Spec.PluginName)
}

// owe records that an action which is about to start must be undone.
func (s *scope) owe(pre *v1alpha1.HookRun) {
	for _, run := range s.post {
		if run.Spec.Owed && run.Spec.PluginName == pre.Spec.PluginName {
			conditions.Set(s.backup, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending,
				"PostBackup action "+run.Spec.PluginName+" must run, whatever happens")
		}
	}
}

// cleanUp says what is still owed, and returns whether nothing is.
func (s *scope) cleanUp(now time.Time, abandoned bool) bool {
	var owed, lost []string
	overdue := false
	for _, run := range s.post {
		if !run.Spec.Owed || !s.needed(run) || succeeded(run) {
			continue
		}
		what := run.Spec.PluginName
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
			s.again(left)
		}
		owed = append(owed, what)
	}
	set := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(s.backup, v1alpha1.ConditionCleanupOwed, status, reason, short(message))
	}
	switch {
	case len(owed) > 0 && overdue:
		message := fmt.Sprintf("clean-up is overdue and tried again and again: PostBackup action %s; mend what it needs, or annotate the Backup with %s=true to give it up",
			strings.Join(owed, ", "), v1alpha1.AnnotationAbandonCleanup)
		set(metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue, message)
		s.finishing(v1alpha1.ReasonCleanupOverdue, message)
		conditions.Summary(s.backup, conditions.StalledRetrying, v1alpha1.ReasonCleanupOverdue, short(message))
	case len(owed) > 0:
		set(metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, "PostBackup action "+strings.Join(owed, ", ")+" must run, whatever happens")
	case len(lost) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonCleanupAbandoned, "given up with the annotation: PostBackup action "+strings.Join(lost, ", "))
	case conditions.IsTrue(s.backup, v1alpha1.ConditionCleanupOwed):
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
