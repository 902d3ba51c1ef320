// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// removeByForce removes an object whatever holds it. It may be gone.
func removeByForce(object client.Object) {
	GinkgoHelper()
	ctx := GinkgoT().Context()
	Expect(client.IgnoreNotFound(world.Client.Delete(ctx, object))).To(Succeed())
	Eventually(func() error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		return client.IgnoreNotFound(world.Client.Patch(ctx, object, patch))
	}).Should(Succeed())
}

var _ = Describe("Owed clean-up whose objects are removed by force", func() {
	var (
		b       *v1alpha1.Backup
		plugin  *v1alpha1.Plugin
		action  string
		release string
	)
	// begin has the PreBackup action run, until release exists.
	begin := func(name string) {
		GinkgoHelper()
		t := GinkgoTB()
		s := world.StartOperator(t)
		release = filepath.Join(world.Dir, name+"-go")
		plugin, action = pairOf(name, release)
		plugin = env.Create(t, world.Client, plugin)
		world.WaitForPlugins(t, plugin)
		b = s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		b = env.Create(t, world.Client, b)
		b = env.WaitFor(t, world.Client, b, "its PreBackup action runs", func(b *v1alpha1.Backup) bool {
			return hasPhase(b.Status.PreBackupActionsStatuses, v1alpha1.ActionPhaseInProgress)
		})
	}
	postRun := func() *v1alpha1.HookRun {
		return &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: (*b.Status.PostBackupActionsStatuses)[0].HookRunName,
		}}
	}
	goOn := func() {
		GinkgoHelper()
		Expect(os.WriteFile(release, nil, 0o600)).To(Succeed())
	}
	// undone reports whether the PostBackup action was called.
	undone := func() bool {
		calls := world.FaultPluginCalls(GinkgoTB(), func(string) bool { return true })
		return slices.Contains(calls, "PostBackup "+action+" #1")
	}

	It("is lost until a person acknowledges it, without HookRun and Plugin", func() {
		t := GinkgoTB()
		begin("lost")
		removeByForce(plugin)
		Eventually(func() string {
			removeByForce(postRun()) // it is created again until the operator knows that the Plugin was deleted
			goOn()
			var now v1alpha1.Backup
			Expect(world.Client.Get(t.Context(), client.ObjectKeyFromObject(b), &now)).To(Succeed())
			if owed := conditions.Get(&now, v1alpha1.ConditionCleanupOwed); now.Status.CompletionTimestamp != nil {
				return string(owed.Status) + " " + owed.Reason
			}
			return string(now.Status.Phase)
		}).Should(Equal("True " + v1alpha1.ReasonCleanupLost))
		b = env.WaitFor(t, world.Client, b, "its message says what was lost", func(b *v1alpha1.Backup) bool {
			return conditions.Get(b, v1alpha1.ConditionCleanupOwed).Reason == v1alpha1.ReasonCleanupLost
		})
		Expect(conditions.Get(b, v1alpha1.ConditionCleanupOwed).Message).To(And(
			ContainSubstring("PostBackup action "+action), ContainSubstring(v1alpha1.AnnotationAbandonCleanup)))
		Expect(undone()).To(BeFalse())
		world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
		env.WaitFor(t, world.Client, b, "it owes nothing", func(b *v1alpha1.Backup) bool {
			return conditions.Get(b, v1alpha1.ConditionCleanupOwed).Reason == v1alpha1.ReasonCleanupAbandoned
		})
	})

	It("runs without its HookRun, although its Plugin selects others now", func() {
		t := GinkgoTB()
		begin("reselected")
		world.Patch(t, plugin, `{"spec":{"actions":[
			{"kind":"PreBackupAction","name":"`+action+`","selector":{"matchLabels":{"app":"other"}}},
			{"kind":"PostBackupAction","name":"`+action+`","selector":{"matchLabels":{"app":"other"}}}]}}`)
		removeByForce(postRun())
		goOn()
		env.WaitFor(t, world.Client, b, "its clean-up is done", func(b *v1alpha1.Backup) bool {
			owed := conditions.Get(b, v1alpha1.ConditionCleanupOwed)
			return b.Status.CompletionTimestamp != nil && owed.Reason == v1alpha1.ReasonCleanupDone
		})
		Expect(undone()).To(BeTrue())
	})

	It("runs without its Backup", func() {
		begin("orphaned")
		run := postRun()
		removeByForce(b)
		goOn()
		Eventually(undone).Should(BeTrue())
		world.WaitForDeletion(GinkgoTB(), run)
	})
})
