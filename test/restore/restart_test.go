// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Restores and restarts", Label("restore"), func() {
	It("continues after a crash at any stage", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		const many = 40 // and one that is held, and the namespace
		app := gatedApp(t, many)
		b := s.backUp(t, app)
		want := restored(t, app)
		for name, c := range map[string]struct {
			action    string
			kill      func(t testing.TB, target string)
			pre, post int32
			attempts  int32
		}{
			"in a PreRestore action": {action: newKiller(t, v1alpha1.HookPreRestore), pre: 2, post: 1, attempts: 1},
			"while it restores": {
				action: first, pre: 1, post: 1, attempts: 2, kill: func(t testing.TB, target string) {
					t.Helper()
					awaitObjects(t, target, many)
					Expect(s.Operator.Kill()).To(Succeed())
				},
			},
			"in a PostRestore action": {action: newKiller(t, v1alpha1.HookPostRestore), pre: 1, post: 2, attempts: 1},
		} {
			By(name, func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(c.action)
				gate := newGate(t, app)
				if c.kill == nil {
					gate.open()
				}
				env.Create(t, world.Client, r)
				if c.kill != nil {
					c.kill(t, target)
					gate.open()
				}
				s.RestartOperator(t)
				r = outcome(t, r, v1alpha1.RunPhaseCompleted, "42 created")
				env.CheckEqual(t, "objects", restored(t, target), want)
				if counts := r.Status.Counts; counts.Created != many+2 {
					t.Errorf("the counts are %v, want %d created", counts, many+2)
				}
				for point, attempts := range map[v1alpha1.HookPoint]int32{
					v1alpha1.HookPreRestore: c.pre, v1alpha1.HookPostRestore: c.post,
				} {
					run := runOf(t, r, point, c.action, func(v1alpha1.HookRun) bool { return true })
					if run.Status.Phase != v1alpha1.HookRunPhaseCompleted || run.Status.Attempt != attempts {
						t.Errorf("%s is %s after %d attempts, want %d", point, run.Status.Phase, run.Status.Attempt, attempts)
					}
				}
				if r.Status.Attempts != c.attempts {
					t.Errorf("the objects were begun %d times, want %d", r.Status.Attempts, c.attempts)
				}
			})
		}
	})
})
