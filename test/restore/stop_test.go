// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Restores that are stopped", Label("restore"), func() {
	It("can be canceled or deleted at any stage", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := gatedApp(t, 2)
		b := s.backUp(t, app)
		newGate(t, app)
		for name, stop := range map[string]func(testing.TB, *v1alpha1.Restore){
			"cancelled": func(t testing.TB, r *v1alpha1.Restore) {
				t.Helper()
				cancelRestore(t, r)
				outcome(t, r, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel")
			},
			"deleted": func(t testing.TB, r *v1alpha1.Restore) {
				t.Helper()
				world.Delete(t, r)
				world.WaitForDeletion(t, r)
				checkPaid(t, r)
			},
		} {
			By(name+" in a PreRestore action", func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(first, holds)
				env.Create(t, world.Client, r)
				called(t, r, v1alpha1.HookPreRestore, holds)
				stop(t, r)
				untouched(t, target)
				env.CheckEqual(t, "calls", callsOf(t, r, "holds"), []string{"PreRestore " + holds + " #1", "PostRestore " + holds + " #1"})
			})
			By(name+" while it restores", func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(first)
				env.Create(t, world.Client, r)
				awaitObjects(t, target, 2)
				stop(t, r)
				env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
				env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{"PreRestore " + first + " #1", "PostRestore " + first + " #1"})
			})
		}
	})

	It("keep the outcome when they are canceled after the end", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		r, _ := s.restoreOf(s.backUp(t, app).Name, app)
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
		cancelRestore(t, r)
		outcome(t, r, v1alpha1.RunPhaseCompleted)
	})

	It("report what was restored", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := gatedApp(t, 2)
		b := s.backUp(t, app)
		newGate(t, app)
		r, target := s.restoreOf(b.Name, app)
		env.Create(t, world.Client, r)
		awaitObjects(t, target, 2)
		cancelRestore(t, r)
		r = outcome(t, r, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel", "Objects: 3 created before")
		if r.Status.Counts == nil || r.Status.Counts.Created != 3 {
			t.Errorf("the counts are %+v, want 3 created", r.Status.Counts)
		}
		says(t, s.stored(t, r.Status.Files.ResourceList), `"v1/ConfigMap":["`+target+`/c0(created)","`+target+`/c1(created)"]`)
		says(t, s.results(t, r), "Cancelled: spec.desiredState is Cancel")
	})

	It("finish owed clean-up", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		for name, stop := range map[string]func(testing.TB, *v1alpha1.Restore){
			"cancelled": func(t testing.TB, r *v1alpha1.Restore) {
				t.Helper()
				cancelRestore(t, r)
				outcome(t, r, v1alpha1.RunPhaseCompleted, "2 created")
			},
			"deleted": func(t testing.TB, r *v1alpha1.Restore) {
				t.Helper()
				world.Delete(t, r)
				world.WaitForDeletion(t, r)
				checkPaid(t, r)
			},
		} {
			By(name, func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels, r.Spec.Parameters = env.LabelsForActions(first), parameter(first, "fault", "sleep:1s")
				env.Create(t, world.Client, r)
				called(t, r, v1alpha1.HookPostRestore, first)
				stop(t, r)
				env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
				env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{"PreRestore " + first + " #1", "PostRestore " + first + " #1"})
			})
		}
	})

	It("can be canceled before they begin", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		r, target := s.restoreOf(s.backUp(t, app).Name, app)
		r.Spec.DesiredState = v1alpha1.DesiredStateCancel
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCancelled, "Cancelled before it started")
		untouched(t, target)
		r.Spec.DesiredState = v1alpha1.DesiredStateRun
		if err := world.Client.Update(t.Context(), r); err == nil {
			t.Error("the API server took it back")
		}
	})
})

// awaitObjects waits until a namespace has so many ConfigMaps.
func awaitObjects(t testing.TB, namespace string, n int) {
	t.Helper()
	suite.Eventually(t, func() string {
		if got := restored(t, namespace); len(got) != n {
			return fmt.Sprintf("there are %q, want %d", got, n)
		}
		return ""
	})
}
