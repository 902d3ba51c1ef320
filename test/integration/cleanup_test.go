// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Owed clean-up", Label("hooks"), func() {
	Context("undoes an action that was started", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			actions []string
			stop    func(testing.TB, *v1alpha1.Backup)
			phase   v1alpha1.RunPhase
			undone  map[string]bool
		}{
			"it ended well": {
				actions: []string{pair}, phase: v1alpha1.RunPhaseCompleted, undone: map[string]bool{pair: true},
			},
			"it failed": {
				actions: []string{preFails}, phase: v1alpha1.RunPhaseFailedPreBackupActions, undone: map[string]bool{preFails: true},
			},
			"it timed out": {
				actions: []string{preExpires}, phase: v1alpha1.RunPhaseFailedPreBackupActions, undone: map[string]bool{preExpires: true},
			},
			"it hangs": {
				actions: []string{preHangs}, phase: v1alpha1.RunPhaseFailedPreBackupActions, undone: map[string]bool{preHangs: true},
			},
			"it was cancelled": {
				actions: []string{preHolds}, stop: cancelBackup, phase: v1alpha1.RunPhaseCancelled, undone: map[string]bool{preHolds: true},
			},
			"the Backup was deleted": {
				actions: []string{preHolds}, stop: func(t testing.TB, b *v1alpha1.Backup) { t.Helper(); world.Delete(t, b) },
				phase: v1alpha1.RunPhaseCancelled, undone: map[string]bool{preHolds: true},
			},
			"one before it failed": {
				actions: []string{pair, preFails, third}, phase: v1alpha1.RunPhaseFailedPreBackupActions,
				undone: map[string]bool{pair: true, preFails: true, third: false},
			},
			"one before it was cancelled": {
				actions: []string{preHolds, third}, stop: cancelBackup, phase: v1alpha1.RunPhaseCancelled,
				undone: map[string]bool{preHolds: true, third: false},
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(c.actions...)
				s.apply(t, b)
				if c.stop != nil {
					awaitCall(t, b, v1alpha1.HookPreBackup, c.actions[0])
					s.undisturbed(t, app)
					c.stop(t, b)
				}
				b = await(t, b, "it ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
				if b.Status.Phase != c.phase {
					t.Errorf("the phase is %s, want %s: %s", b.Status.Phase, c.phase, b.Status.Message)
				}
				for action, undone := range c.undone {
					want := v1alpha1.HookRunPhaseSkipped
					if undone {
						want = v1alpha1.HookRunPhaseCompleted
					}
					awaitPhase(t, b, v1alpha1.HookPostBackup, action, want)
				}
				checkOwedFirst(t, b)
			})
		}
	})

	It("retries until it succeeds", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b, plugin, action := brokenCleanup(t, s)
		env := plugin.Spec.Executor.Process.Env
		env[len(env)-1].Value = "none"
		updated := latest(plugin).DeepCopy()
		updated.Spec.Executor.Process.Env = env
		Expect(world.Client.Update(t.Context(), updated)).To(Succeed())
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		if got := reasonOf(b, v1alpha1.ConditionCleanupOwed); got != v1alpha1.ReasonCleanupDone {
			t.Errorf("CleanupOwed has the reason %s", got)
		}
		run := runOf(t, b, v1alpha1.HookPostBackup, action)
		if run.Status.Phase != v1alpha1.HookRunPhaseCompleted || run.Status.Attempt < 2 {
			t.Errorf("the clean-up is %s after %d attempts", run.Status.Phase, run.Status.Attempt)
		}
		says(t, []string{s.file(t, b, storage.PostLogs)}, "The action failed", "The action answered")
	})

	It("is abandoned with an annotation", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b, _, action := brokenCleanup(t, s)
		world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		if got := reasonOf(b, v1alpha1.ConditionCleanupOwed); got != v1alpha1.ReasonCleanupAbandoned {
			t.Errorf("CleanupOwed has the reason %s", got)
		}
		awaitEvent(t, b, "Warning CleanupAbandoned: abandoned with the annotation: PostBackup action "+action)
	})

	It("runs although the Backup is deleted", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b, plugin, action := brokenCleanup(t, s)
		world.Delete(t, b)
		world.Delete(t, plugin)
		await(t, plugin, "it is held", func(p *v1alpha1.Plugin) bool {
			return reasonOf(p, v1alpha1.ConditionReconciling) == v1alpha1.ReasonInUse &&
				strings.Contains(p.Status.Message, runOf(t, b, v1alpha1.HookPostBackup, action).Name)
		})
		attempts := runOf(t, b, v1alpha1.HookPostBackup, action).Status.Attempt
		run := await(t, runOf(t, b, v1alpha1.HookPostBackup, action), "it is tried on", func(run *v1alpha1.HookRun) bool {
			return run.Status.Attempt > attempts
		})
		if _, gone, _ := world.watched.look(b.UID); gone {
			t.Errorf("the Backup is gone although it owes clean-up: %s", describe(run))
		}
		world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
		awaitGone(t, b)
		awaitGone(t, plugin)
	})

	It("does not change the outcome of the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(after)
		parameter(b, after, "fault", "error")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "in the archive", "PostBackup action failed: "+after, "the database said no")
		if got := conditionOf(b, v1alpha1.ConditionPostActionsSucceeded); got != metav1.ConditionFalse {
			t.Errorf("PostActionsSucceeded is %q", got)
		}
		awaitEvent(t, b, "Warning PostBackupActionFailed: ")
		env.CheckEqual(t, "PostBackup actions", env.FormatActionStatuses(b.Status.PostBackupActionsStatuses), []string{after + " Failed"})
	})
})

// checkOwedFirst checks that a Backup said what it would owe before the action that
// made it so was called, and that it owes nothing at last.
func checkOwedFirst(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	owed := await(t, b, "clean-up is owed", func(b *v1alpha1.Backup) bool {
		return conditionOf(b, v1alpha1.ConditionCleanupOwed) == metav1.ConditionTrue
	})
	for _, status := range *owed.Status.PreBackupActionsStatuses {
		if status.StartTimestamp != nil {
			t.Errorf("%s was called before it was recorded what is owed for it", status.PluginName)
		}
	}
	await(t, b, "nothing is owed any more", func(b *v1alpha1.Backup) bool {
		return reasonOf(b, v1alpha1.ConditionCleanupOwed) == v1alpha1.ReasonCleanupDone
	})
	awaitEvent(t, b, "Normal CleanupDone: ")
}

// brokenCleanup installs a Plugin with a pair whose PostBackup side fails, and runs a
// Backup with it until its clean-up is overdue.
func brokenCleanup(t testing.TB, s site) (b *v1alpha1.Backup, plugin *v1alpha1.Plugin, action string) {
	t.Helper()
	action = own(t, "broken")
	plugin = install(t, world.NewFaultPlugin(path.Base(action), slices.Concat(
		pre(v1alpha1.PluginAction{Name: action, Order: 50}),
		post(v1alpha1.PluginAction{Name: action, Order: 50, Timeout: within(4 * time.Second)}),
	), "FAULT_CALL=PostBackup=error"))
	b = s.NewBackup(world.CreateApp(t, 1))
	b.Labels = env.LabelsForActions(action, after)
	s.apply(t, b)
	b = await(t, b, "clean-up is overdue", func(b *v1alpha1.Backup) bool {
		return reasonOf(b, v1alpha1.ConditionCleanupOwed) == v1alpha1.ReasonCleanupOverdue &&
			strings.Contains(b.Status.Message, "the database said no") // and not that it is being tried
	})
	if b.Status.Phase != v1alpha1.RunPhaseCompleted || conditionOf(b, v1alpha1.ConditionSucceeded) != metav1.ConditionTrue {
		t.Errorf("the outcome is %s", b.Status.Phase)
	}
	for name, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionCleanupOwed: metav1.ConditionTrue, v1alpha1.ConditionStalled: metav1.ConditionTrue,
		v1alpha1.ConditionReady: metav1.ConditionFalse,
	} {
		if got := conditionOf(b, name); got != want {
			t.Errorf("the condition %s is %s, want %s", name, got, want)
		}
	}
	says(t, []string{b.Status.Message}, "in the archive", action, v1alpha1.AnnotationAbandonCleanup+"=true")
	awaitEvent(t, b, "Warning CleanupOverdue: ")
	// It does not hold up the others, which come behind it.
	awaitPhase(t, b, v1alpha1.HookPostBackup, after, v1alpha1.HookRunPhaseCompleted)
	return b, plugin, action
}
