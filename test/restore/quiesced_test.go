// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Restores of quiesced workloads", Label("restore"), func() {
	// A Backup may read an application while another one has it stopped.
	It("starts workloads that were quiesced in the archive", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 0)
		labels := map[string]string{"app": "web"}
		env.Create(t, world.Client, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "web", Annotations: map[string]string{
				"grapnel.dev/quiesced": `{"v":1,"kind":"Deployment","uid":"elsewhere","replicas":3,"holders":[]}`,
			}},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.invalid/web"}}},
				},
			},
		})
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Spec.IncludedResources = []v1alpha1.NamePattern{"deployments"} })
		starts := map[string]string{"starts": strings.ToLower(app)}
		plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "starts-" + app}}
		plugin.Spec.Executor.Builtin = &v1alpha1.BuiltinExecutor{Quiesce: &v1alpha1.QuiesceExecutor{}}
		plugin.Spec.Actions = []v1alpha1.PluginAction{{
			Name: "example.io/quiesce", Kind: v1alpha1.ActionKindPostRestore, Selector: &metav1.LabelSelector{MatchLabels: starts},
		}}
		env.Create(t, world.Client, plugin)
		for name, c := range map[string]struct {
			labels             map[string]string
			warnings, replicas int32
		}{
			"no action starts it": {nil, 1, 0}, "an action starts it": {starts, 0, 3},
		} {
			By(name, func() {
				r, target := s.restoreOf(b.Name, app)
				r.Labels = c.labels
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
				if int32(r.Status.Warnings) != c.warnings {
					t.Errorf("%d warnings, want %d", r.Status.Warnings, c.warnings)
				}
				if c.warnings > 0 {
					says(t, s.results(t, r), `web\": it was restored stopped`)
				}
				var web appsv1.Deployment
				Expect(world.Client.Get(t.Context(), client.ObjectKey{Namespace: target, Name: "web"}, &web)).To(Succeed())
				if *web.Spec.Replicas != c.replicas {
					t.Errorf("it has %d replicas, want %d", *web.Spec.Replicas, c.replicas)
				}
			})
		}
	})
})
