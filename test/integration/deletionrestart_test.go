// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A deletion and restarts", Label("deletion"), func() {
	Context("calls the action once more, and finishes", Ordered, func() {
		var s site
		BeforeAll(func() { s = site{world.StartOperator(suite.Spec(GinkgoTB()))} })
		It("in a DeleteAction", func() {
			t := suite.Spec(GinkgoTB())
			action, release := held(t, v1alpha1.ActionKindDelete)
			b := s.NewBackup(world.CreateApp(t, 1))
			b.Labels = env.LabelsForActions(action)
			b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
			d := destroy(t, b)
			awaitCalled(t, d, action)
			s.kill(t)
			release()
			s.RestartOperator(t)
			d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
			env.CheckEqual(t, "the actions", env.FormatActionStatuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", action + " Completed"})
			s.gone(t, b)
		})
		It("in a DeleteItemAction", func() {
			t := suite.Spec(GinkgoTB())
			action := own(t, "cleans")
			cleaned, goOn := filepath.Join(t.TempDir(), "cleaned"), filepath.Join(t.TempDir(), "go-on")
			install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
				{Name: action, Kind: v1alpha1.ActionKindDeleteItem, Selector: env.SelectorForAction(action)},
			}, "FAULT_CLEANED="+cleaned))
			app := world.CreateApp(t, 1)
			slow := env.NewConfigMap(app, 5)
			slow.Annotations = map[string]string{"fault.example.io/clean": "await:" + goOn}
			env.Create(t, world.Client, slow)
			b := s.NewBackup(app)
			b.Labels = env.LabelsForActions(action)
			b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
			d := destroy(t, b)
			shown := func() int { return strings.Count(content(t, cleaned), app+"/c5") }
			suite.Eventually(t, func() string { // nothing in the cluster tells
				if shown() == 0 {
					return "the object is not shown"
				}
				return ""
			})
			s.kill(t)
			touch(t, goOn)
			s.RestartOperator(t)
			d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
			if shown() != 2 || d.Status.Attempts != 2 {
				t.Errorf("the object was shown %d times in %d attempts, want 2 in 2", shown(), d.Status.Attempts)
			}
			s.gone(t, b)
		})
	})
})

func (s site) kill(t testing.TB) {
	t.Helper()
	Expect(s.Operator.Kill()).To(Succeed())
}

// content reads a file; "" if there is none.
func content(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
