// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// runAgain is a patch that takes a cancel back.
func runAgain() client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Run"}}`))
}

var _ = Describe("Operations and restarts", Label("operations"), func() {
	It("continues without another archive", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.StartOperator(t)}, world.CreateApp(t, 0)
		goOn, give := signal(t)
		operate(t, app, "ends-well", "until:"+goOn+";post:settings")
		operate(t, app, "fails", "until:"+goOn+";error:the disk is full")
		operate(t, app, "settings", "")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates)
		s.apply(t, b)
		doing(t, b, v1alpha1.ReasonWaitingForOperations)
		Expect(s.Operator.Kill()).To(Succeed())
		give()
		s.RestartOperator(t)
		b = outcome(t, b, v1alpha1.RunPhasePartiallyFailed, "1 of 2 operations", "1 error")
		endedAs(t, b, map[string]string{"ends-well": "Completed Completed", "fails": "Failed OperationFailed"})
		counted(t, b, 2, 1, 1, 0)
		if b.Status.Attempts != 1 || cancels(t, b) != 0 {
			t.Errorf("the archive was begun %d times, %d operations were cancelled", b.Status.Attempts, cancels(t, b))
		}
		contains(t, s.archived(t, b), configMap(app, "settings"), configMap(app, "fails"))
	})

	// The operator is killed before all objects are archived.
	It("cancels the operations of an abandoned attempt", func() {
		t := suite.Spec(GinkgoTB())
		s, app, holds := site{world.StartOperator(t)}, world.CreateApp(t, 0), own(t, "holds")
		install(t, world.NewFaultPlugin(path.Base(holds), onItems(holds)))
		finish, finished := signal(t)
		goOn, give := signal(t)
		operate(t, app, "a", "until:"+finish)
		asking(t, app, "b", "await:"+goOn)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates, holds)
		s.apply(t, b)
		first := operationIn(t, b, "a", v1alpha1.AsyncOperationPhaseInProgress)
		Expect(s.Operator.Kill()).To(Succeed())
		give()
		s.RestartOperator(t)
		second := operationOf(t, b, "a", "it is of the second attempt", func(o *v1alpha1.AsyncOperation) bool {
			return o.Spec.Attempt == 2 && o.Status.Phase == v1alpha1.AsyncOperationPhaseInProgress
		})
		await(t, first, "it is cancelled", inPhase(v1alpha1.AsyncOperationPhaseCancelled))
		finished()
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 of 1 operation")
		counted(t, b, 1, 1, 0, 0)
		if phase := latest(second).Status.Phase; phase != v1alpha1.AsyncOperationPhaseCompleted || cancels(t, b) != 1 {
			t.Errorf("the second operation is %s, %d were cancelled", phase, cancels(t, b))
		}
	})

	It("continues in another operator", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--leader-elect")}
		first := awaitLeader(t, s, "")
		second := s.StartStandby(t)
		app := world.CreateApp(t, 0)
		goOn, give := signal(t)
		operate(t, app, "one", "until:"+goOn)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates)
		s.apply(t, b)
		doing(t, b, v1alpha1.ReasonWaitingForOperations)
		Expect((*operator.Operator).Stop(s.Operator)).To(Succeed())
		awaitLeader(t, s, first)
		give()
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 of 1 operation")
		if b.Status.Attempts != 1 || cancels(t, b) != 0 {
			t.Errorf("the archive was begun %d times, %d operations were cancelled", b.Status.Attempts, cancels(t, b))
		}
		s.Operator = second
	})

	It("continues when a removed plugin is back", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), own(t, "removed")
		binary := filepath.Join(s.Dir, "plugins", "removed", path.Base(action))
		put := func() {
			t.Helper()
			Expect(os.MkdirAll(filepath.Dir(binary), 0o755)).To(Succeed())
			Expect(os.Link(filepath.Join(s.Dir, "plugins", "fault"), binary)).To(Succeed())
		}
		put()
		plugin := operatingPlugin(t, action, v1alpha1.OperationPolicy{})
		plugin.Spec.Executor.Process.Command = "removed/" + plugin.Name
		install(t, plugin)
		goOn, give := signal(t)
		operate(t, app, "one", "until:"+goOn+";kill:6")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		s.apply(t, b)
		operationIn(t, b, "one", v1alpha1.AsyncOperationPhaseInProgress)
		Expect(os.Remove(binary)).To(Succeed())
		operationOf(t, b, "one", "the plugin can not be asked", func(o *v1alpha1.AsyncOperation) bool {
			return !o.Ended() && o.Status.TransientErrors > 0 && reasonOf(o, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonUnreachable
		})
		give()
		put()
		outcome(t, b, v1alpha1.RunPhaseCompleted, "1 of 1 operation")
	})
})
