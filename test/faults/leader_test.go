// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// electedFlags make a leader of one operator, and another one soon after it was paused.
func electedFlags() []string {
	return []string{
		"--leader-elect", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
	}
}

// awaitLeader waits until another operator than the one before leads, and returns which.
func awaitLeader(namespace, before string) string {
	GinkgoHelper()
	var lease coordinationv1.Lease
	Eventually(func(g Gomega) {
		g.Expect(world.Client.Get(GinkgoT().Context(), client.ObjectKey{Namespace: namespace, Name: "operator.grapnel.dev"}, &lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).NotTo(HaveValue(BeElementOf("", before)))
	}).Should(Succeed())
	return *lease.Spec.HolderIdentity
}

// newDeployments creates Deployments with one replica each.
func newDeployments(namespace string, count int) {
	GinkgoHelper()
	for i := range count {
		labels := map[string]string{"app": fmt.Sprintf("d%d", i)}
		env.Create(GinkgoTB(), world.Client, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: labels["app"]},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/app"}}},
				},
			},
		})
	}
}

// stoppedDeployments returns the names of those that have no replicas, or are marked as
// quiesced.
func stoppedDeployments(namespace string) []string {
	GinkgoHelper()
	var list appsv1.DeploymentList
	Expect(world.Client.List(GinkgoT().Context(), &list, client.InNamespace(namespace))).To(Succeed())
	var names []string
	for _, d := range list.Items {
		if *d.Spec.Replicas == 0 || d.Labels[quiesce.Label] != "" {
			names = append(names, d.Name)
		}
	}
	return names
}

// newQuiescer installs a Plugin that stops the workloads of Backups that ask for it, until the
// spec ends.
func newQuiescer(name string) *v1alpha1.Plugin {
	GinkgoHelper()
	t := GinkgoTB()
	action := name + ".example.io/quiesce"
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	plugin.Spec.Executor.Builtin = &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{
		Kinds: []v1alpha1.QuiesceKind{"Deployment"},
	}}
	for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup} {
		plugin.Spec.Actions = append(plugin.Spec.Actions, v1alpha1.PluginAction{
			Kind: kind, Name: action, Selector: &metav1.LabelSelector{MatchLabels: env.LabelsForActions(name)},
		})
	}
	plugin = env.Create(t, world.Client, plugin)
	ctx := context.WithoutCancel(t.Context())
	DeferCleanup(func() { Expect(world.Client.Delete(ctx, plugin)).To(Succeed()) })
	return plugin
}

var _ = Describe("A leader that is paused", func() {
	It("stops nothing that its successor gave back", func() {
		t := GinkgoTB()
		const all = 60
		app := world.CreateApp(t, 1)
		newDeployments(app, all)
		s := world.StartOperator(t, electedFlags()...)
		first := awaitLeader(s.Name, "")
		paused := s.Operator
		s.Operator = s.StartStandby(t)
		world.WaitForPlugins(t, newQuiescer("pausing"))

		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions("pausing")
		b = env.Create(t, world.Client, b)
		Eventually(func() int { return len(stoppedDeployments(app)) }).WithPolling(5 * time.Millisecond).Should(BeNumerically(">", 5))
		Expect(syscall.Kill(paused.PID(), syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(resume, paused)
		Expect(len(stoppedDeployments(app))).To(BeNumerically("<", all), "it was paused too late")
		Expect(awaitLeader(s.Name, first)).NotTo(BeEmpty())
		env.WaitFor(t, world.Client, b, "its successor has completed it", func(b *v1alpha1.Backup) bool {
			owed := conditions.Get(b, v1alpha1.ConditionCleanupOwed)
			return b.Status.Phase == v1alpha1.RunPhaseCompleted && owed != nil && owed.Status == metav1.ConditionFalse
		})
		Expect(stoppedDeployments(app)).To(BeEmpty(), "its successor gave back everything")

		resume(paused)
		Eventually(paused.Done()).WithTimeout(10*time.Second).Should(BeClosed(), "the process ends")
		Expect(paused.Err()).To(HaveOccurred())
		Expect(stoppedDeployments(app)).To(BeEmpty())
	})
})

// resume lets an operator continue that was paused. It may have ended since.
func resume(paused *operator.Operator) {
	select {
	case <-paused.Done():
	default:
		Expect(syscall.Kill(paused.PID(), syscall.SIGCONT)).To(Succeed())
	}
}
