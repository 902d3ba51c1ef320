// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A run with problems", Ordered, ContinueOnFailure, func() {
	const app, endlessAction = "crew", "example.io/wait"

	BeforeAll(func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: app}})
		env.Create(t, world.Client, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "bridge"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 31234}}},
		})
	})

	// Other stories count the Backups.
	AfterAll(func(ctx context.Context) {
		task(ctx, backupOperator, 0, "backup delete crew-1 --confirm --wait --timeout 1m")
	})

	It("says why a backup is PartiallyFailed", func(ctx context.Context) {
		out := task(ctx, backupOperator, 2, "backup create crew-1 --include-namespaces crew,crow --wait --timeout 1m")
		Expect(out).To(ContainSubstring(`Error NamespaceNotFound: namespace "crow" does not exist`))
		out = showTask(ctx, 3, "why is it PartiallyFailed?", viewer, 0, "backup describe crew-1")
		Expect(out).To(And(MatchRegexp(`(?m)^Phase: +PartiallyFailed$`), ContainSubstring(`namespace "crow" does not exist`)))
	})

	It("says why an object was not restored", func(ctx context.Context) {
		out := task(ctx, restoreOperator, 2, "restore create crew-again --from-backup crew-1 --namespace-mappings crew=crew-2 --preserve-nodeports --wait --timeout 1m")
		Expect(out).To(ContainSubstring("31234"))
		out = showTask(ctx, 10, "why did an object fail to restore?", viewer, 0, "results restore/crew-again")
		Expect(out).To(And(ContainSubstring("bridge"), ContainSubstring("31234"), ContainSubstring("1 error")))
	})

	It("cancels a run, after the waiting was interrupted", func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		endless := env.Create(t, world.Client, world.NewFaultPlugin("endless", []v1alpha1.PluginAction{
			{Name: endlessAction, Kind: v1alpha1.ActionKindPreBackup, Selector: env.SelectorForAction(endlessAction)},
		}, "FAULT_CALL=PreBackup=wait"))
		world.WaitForPlugins(t, endless)
		DeferCleanup(func(ctx context.Context) error { return world.Client.Delete(ctx, endless) })
		task(ctx, backupOperator, 0, "backup create crew-late --include-namespaces crew --labels use-wait=yes")
		o := interruptWhen(ctx, "Running PreBackup action", viewer, "backup", "wait", "crew-late")
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(ContainSubstring("interrupted; Backup crew-late continues: kubectl grapnel backup cancel crew-late stops it"))
		Expect(grapnel(ctx, viewer, "", "backup", "wait", "crew-late", "--timeout", "1ms").err).To(ContainSubstring("has not ended after 1ms, and continues"))
		Expect(grapnel(ctx, viewer, "", "backup", "cancel", "crew-late").err).To(ContainSubstring("forbidden"))
		Expect(showTask(ctx, 12, "cancel a run", backupOperator, 0, "backup cancel crew-late --wait")).To(ContainSubstring("Backup crew-late: Cancelled"))
	})
})
