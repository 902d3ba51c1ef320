// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Backups that are stopped", Label("hooks"), func() {
	// The end is the same in each case, except that a deleted Backup is gone at last.
	Context("can be canceled or deleted at any stage", func() {
		stops := map[string]func(testing.TB, *v1alpha1.Backup){
			"cancelled": cancelBackup,
			"deleted":   func(t testing.TB, b *v1alpha1.Backup) { t.Helper(); world.Delete(t, b) },
		}
		for name, stop := range suite.SortedByName(stops) {
			It(name+" while it archives", func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				slow := newBucket(t, s)
				slow.hold.Store(true)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(pair, after)
				b.Spec.StorageLocation = slow.location
				s.apply(t, b)
				slow.awaitHeld(t)
				doing(t, b, v1alpha1.ReasonArchiving)
				s.undisturbed(t, app)
				stop(t, b)
				b = await(t, b, "it ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
				slow.release()
				if b.Status.Phase != v1alpha1.RunPhaseCancelled {
					t.Errorf("the phase is %s: %s", b.Status.Phase, b.Status.Message)
				}
				for _, action := range []string{pair, after} {
					awaitPhase(t, b, v1alpha1.HookPostBackup, action, v1alpha1.HookRunPhaseCompleted)
				}
			})
			It(name+" in the PostBackup actions", func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(freeze)
				parameter(b, freeze, "sleep", "1s")
				s.apply(t, b)
				awaitCall(t, b, v1alpha1.HookPostBackup, freeze)
				stop(t, b)
				run := await(t, runOf(t, b, v1alpha1.HookPostBackup, freeze), "it has ended", func(run *v1alpha1.HookRun) bool {
					return run.Status.CompletionTimestamp != nil
				})
				if run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
					t.Errorf("the owed clean-up was stopped: %s", describe(run))
				}
				b = await(t, b, "it owes nothing", func(b *v1alpha1.Backup) bool {
					return reasonOf(b, v1alpha1.ConditionCleanupOwed) == v1alpha1.ReasonCleanupDone
				})
				if b.Status.Phase != v1alpha1.RunPhaseCompleted {
					t.Errorf("the phase is %s: %s", b.Status.Phase, b.Status.Message)
				}
			})
		}
	})

	It("stops an action that owes nothing", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(preOnly)
		parameter(b, preOnly, "fault", "wait")
		s.apply(t, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, preOnly)
		cancelBackup(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel")
		awaitEvent(t, b, "Warning Cancelled: ")
		awaitPhase(t, b, v1alpha1.HookPreBackup, preOnly, v1alpha1.HookRunPhaseCancelled)
		if got := conditionOf(b, v1alpha1.ConditionCleanupOwed); got != "" {
			t.Errorf("CleanupOwed is %s", got)
		}
	})

	It("can be canceled before their location exists", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Spec.StorageLocation = "never-comes"
		s.apply(t, b)
		doing(t, b, v1alpha1.ReasonWaitingForLocation)
		cancelBackup(t, b)
		outcome(t, b, v1alpha1.RunPhaseCancelled, "Cancelled before it started")
	})

	It("free their name", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(preHolds)
		env.Create(t, world.Client, b) // the rules are checked for the one that gets its name
		awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
		world.Delete(t, b)
		awaitGone(t, b)
		next := s.NewBackup(app)
		next.GenerateName, next.Name = "", b.Name
		outcome(t, s.apply(t, next), v1alpha1.RunPhaseCompleted)
	})

	It("are not started again", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.DesiredState = v1alpha1.DesiredStateCancel
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCancelled, "Cancelled before it started: spec.desiredState is Cancel")
		b = b.DeepCopy()
		b.Spec.DesiredState = v1alpha1.DesiredStateRun
		if err := world.Client.Update(t.Context(), b); err == nil {
			t.Error("the API server took it back")
		}
	})

	// The namespace is that of the Backup and its HookRuns, and there is something to undo.
	It("are undone when their namespace is deleted", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(preHolds, after)
		env.Create(t, world.Client, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
		world.Delete(t, namespace)
		awaitGone(t, b)
		b = latest(b)
		if b.Status.Phase != v1alpha1.RunPhaseCancelled || reasonOf(b, v1alpha1.ConditionCleanupOwed) != v1alpha1.ReasonCleanupDone {
			t.Errorf("at last the Backup was so: %s", describe(b))
		}
		for _, action := range []string{preHolds, after} {
			awaitPhase(t, b, v1alpha1.HookPostBackup, action, v1alpha1.HookRunPhaseCompleted)
		}
		for _, run := range runsOf(b) {
			awaitGone(t, run)
		}
		checkFinal(t, b)
	})
})
