// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// waitsFor reports whether a Backup waits for that reason and names what is missing.
func waitsFor(b *v1alpha1.Backup, reason, missing string) bool {
	for _, condition := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionReconciling} {
		c := conditions.Get(b, condition)
		if c == nil || c.Reason != reason {
			return false
		}
		Expect(c.Message).To(And(HavePrefix("Waiting until "), ContainSubstring(missing)))
	}
	return true
}

var _ = Describe("A Backup that is created before what it needs", func() {
	It("waits for its location and then for its Plugin, without a slot, and completes", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--admission-grace=5m", "--max-concurrent-backups=1")
		app, action := world.CreateApp(t, 1), "example.io/admission"
		b := s.NewBackup(app)
		b.Spec.StorageLocation = "later"
		b.Labels = env.LabelsForActions(action)
		b.Spec.Parameters = map[string]v1alpha1.ParameterSet{action: {}}
		b = env.Create(t, world.Client, b)
		env.WaitFor(t, world.Client, b, "it waits for its location", func(b *v1alpha1.Backup) bool {
			return waitsFor(b, v1alpha1.ReasonWaitingForLocation, `"later" does not exist`)
		})

		other := env.Create(t, world.Client, s.NewBackup(app))
		env.WaitFor(t, world.Client, other, "it has completed in the only slot", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted
		})

		env.Create(t, world.Client, s.NewLocation("later"))
		env.WaitFor(t, world.Client, b, "it waits for its Plugin", func(b *v1alpha1.Backup) bool {
			return waitsFor(b, v1alpha1.ReasonWaitingForPlugins, action)
		})

		env.Create(t, world.Client, world.NewFaultPlugin("admission", []v1alpha1.PluginAction{
			{Kind: v1alpha1.ActionKindPreBackup, Name: action, Selector: env.SelectorForAction(action)},
		}))
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), b.Status.Message)
		Expect(b.Status.StorageLocation).To(Equal("later"))
		Expect(*b.Status.PreBackupActionsStatuses).To(HaveLen(1), "the action of the Plugin ran")
	})

	It("fails its validation when the grace is over", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--admission-grace=3s")
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.StorageLocation = "nowhere"
		b = env.Create(t, world.Client, b)
		env.WaitFor(t, world.Client, b, "it waits for its location", func(b *v1alpha1.Backup) bool {
			return waitsFor(b, v1alpha1.ReasonWaitingForLocation, `"nowhere" does not exist`)
		})
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseFailedValidation))
		Expect(b.Status.ValidationErrors).To(ConsistOf(
			`BackupStorageLocation "nowhere" does not exist in this namespace; create it, or set spec.storageLocation to one of: ` + env.DefaultLocation))
	})

	It("fails its validation at once if it is invalid anyway", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--admission-grace=5m")
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.StorageLocation = "nowhere"
		b.Spec.ExcludedNamespaces = b.Spec.IncludedNamespaces
		b = env.Create(t, world.Client, b)
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseFailedValidation))
		Expect(b.Status.ValidationErrors).To(ConsistOf(ContainSubstring("nowhere"), ContainSubstring("excluded")))
	})
})

var _ = Describe("A Restore that is created before its Backup", func() {
	It("waits for the Backup and completes", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--admission-grace=5m")
		b := s.NewBackup(world.CreateApp(t, 1))
		b.GenerateName, b.Name = "", "later"
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		r.Spec.BackupName = b.Name
		env.Create(t, world.Client, r)
		env.WaitFor(t, world.Client, r, "it waits for its backup", func(r *v1alpha1.Restore) bool {
			c := conditions.Get(r, v1alpha1.ConditionSucceeded)
			return c != nil && c.Reason == v1alpha1.ReasonWaitingForBackup
		})
		env.Create(t, world.Client, b)
		r = env.WaitFor(t, world.Client, r, "it has ended", func(r *v1alpha1.Restore) bool { return r.Status.CompletionTimestamp != nil })
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
	})
})

var _ = Describe("A Backup of a namespace that does not exist", func() {
	It("is partially failed and names the namespace", func() {
		t := GinkgoTB()
		s := world.StartOperator(t)
		app := world.CreateApp(t, 1)
		b := env.Create(t, world.Client, s.NewBackup(app, app+"-typo"))
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhasePartiallyFailed))
		Expect(b.Status.Message).To(ContainSubstring(`namespace "` + app + `-typo" does not exist`))
		Expect(b.Status.Errors).To(Equal(int64(1)))

		none := env.Create(t, world.Client, s.NewBackup(app+"-typo"))
		none = env.WaitFor(t, world.Client, none, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(none.Status.Phase).To(Equal(v1alpha1.RunPhasePartiallyFailed))
		Expect(none.Status.Message).To(ContainSubstring("none of the included namespaces exists"))
	})
})

var _ = Describe("A location that fails for a moment when a Backup begins", func() {
	It("does not cost the Backup", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--admission-grace=5m")
		b := s.NewBackup(world.CreateApp(t, 1))
		b.GenerateName, b.Name = "", "blocked"
		env.WaitFor(t, world.Client, s.NewLocation(env.DefaultLocation), "it is available", func(l *v1alpha1.BackupStorageLocation) bool {
			return l.Status.Phase == v1alpha1.LocationPhaseAvailable
		})
		backups := filepath.Join(s.LocationDir(env.DefaultLocation), "backups")
		Expect(os.MkdirAll(backups, 0o700)).To(Succeed())
		inTheWay := filepath.Join(backups, b.Name)
		Expect(os.WriteFile(inTheWay, nil, 0o600)).To(Succeed())

		b = env.Create(t, world.Client, b)
		env.WaitFor(t, world.Client, b, "it waits", func(b *v1alpha1.Backup) bool {
			return strings.HasPrefix(b.Status.Message, "Retrying until ")
		})
		Expect(os.Remove(inTheWay)).To(Succeed())
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), b.Status.Message)
	})
})
