// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// awaitArchive waits until an attempt to archive a Backup continues.
func awaitArchive(s *env.Namespace, b *v1alpha1.Backup, attempt int32) {
	GinkgoHelper()
	env.WaitFor(GinkgoTB(), world.Client, b, "it archives", func(b *v1alpha1.Backup) bool { return b.Status.Attempts == attempt })
	Eventually(func() ([]string, error) {
		return filepath.Glob(filepath.Join(s.Dir, "scratch", "grapnel-step-"+string(b.UID)+".archive@*"))
	}).Should(HaveLen(1))
}

var _ = Describe("A Backup that does not end", func() {
	var (
		s       *env.Namespace
		b       *v1alpha1.Backup
		release string
	)
	begin := func(name string) {
		GinkgoHelper()
		t := GinkgoTB()
		s = world.StartOperator(t)
		pair, hold := "example.io/"+name, "example.io/"+name+"-hold"
		release = filepath.Join(world.Dir, name+"-release")
		plugin := world.NewFaultPlugin(name, []v1alpha1.PluginAction{
			{Kind: v1alpha1.ActionKindPreBackup, Name: pair, Selector: env.SelectorForAction(pair)},
			{Kind: v1alpha1.ActionKindPostBackup, Name: pair, Selector: env.SelectorForAction(pair)},
			{Kind: v1alpha1.ActionKindBackupItem, Name: hold, Selector: env.SelectorForAction(pair)},
		})
		env.Create(t, world.Client, plugin)
		world.WaitForPlugins(t, plugin)
		app := world.CreateApp(t, 1)
		held := env.NewConfigMap(app, 7)
		held.Annotations = map[string]string{"fault.example.io/do": "await:" + release}
		env.Create(t, world.Client, held)
		b = s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair)
		b = env.Create(t, world.Client, b)
		awaitArchive(s, b, 1)
	}

	It("is given up when the operator crashed three times in it, and its clean-up runs", func() {
		t := GinkgoTB()
		begin("crash")
		for attempt := int32(2); attempt <= 3; attempt++ {
			Expect(s.Operator.Kill()).To(Succeed())
			s.RestartOperator(t)
			awaitArchive(s, b, attempt)
		}
		Expect(s.Operator.Kill()).To(Succeed())
		s.RestartOperator(t)
		b = env.WaitFor(t, world.Client, b, "it has ended and owes nothing", func(b *v1alpha1.Backup) bool {
			return hasPhase(b.Status.PostBackupActionsStatuses, v1alpha1.ActionPhaseCompleted) && !conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed)
		})
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseFailed))
		Expect(conditions.Get(b, v1alpha1.ConditionSucceeded).Reason).To(Equal(v1alpha1.ReasonRunCrashed))
		Expect(b.Status.Message).To(ContainSubstring("crashed 3 times in the step archive of this Backup"))
		Expect(b.Status.Attempts).To(Equal(int32(3)))
	})

	It("continues after any number of orderly ends of the operator", func() {
		t := GinkgoTB()
		begin("drain")
		for attempt := int32(2); attempt <= 5; attempt++ {
			Expect(s.Operator.Stop()).To(Succeed())
			s.RestartOperator(t)
			awaitArchive(s, b, attempt)
		}
		Expect(os.WriteFile(release, nil, 0o600)).To(Succeed())
		b = env.WaitFor(t, world.Client, b, "it has completed", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted
		})
		Expect(b.Status.Crashes).To(BeNil())
	})
})
