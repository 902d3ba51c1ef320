// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// managed creates workloads that another manager would start again, two that only look managed, and
// one that is not managed.
func (w *world) managed() {
	w.Helper()
	database := &corev1.ConfigMap{ObjectMeta: named("database")} // stands for the operator's own kind
	w.made(database)
	w.made(w.owned(statefulSet("db", 1), database))
	argo := deployment("argo", 1)
	argo.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/argo"}
	elsewhere := job("elsewhere")
	elsewhere.Spec.ManagedBy = new("example.io/multi-cluster")
	w.made(argo, elsewhere, deployment("web", 1))
	w.applied("flux", 1)
	w.applied("flux-without", 0)
}

// applied applies a Deployment as Flux does; 0 replicas leaves the field unset.
func (w *world) applied(name string, replicas int32) {
	w.Helper()
	d := deployment(name, replicas)
	d.APIVersion, d.Kind = "apps/v1", "Deployment"
	d.Namespace = w.ns
	d.Labels["kustomize.toolkit.fluxcd.io/name"], d.Labels["kustomize.toolkit.fluxcd.io/namespace"] = "apps", "flux-system"
	if replicas == 0 {
		d.Spec.Replicas = nil
	}
	//nolint:staticcheck // there are no apply configurations for the objects that Flux applies
	if err := w.Patch(w.Context(), d, client.Apply, client.FieldOwner("kustomize-controller"), client.ForceOwnership); err != nil {
		w.Fatal(err)
	}
}

var _ = Describe("Quiescing managed workloads", Label("hooks"), func() {
	Context("detects managers by managedFields", func() {
		others := map[string]string{
			"StatefulSet db": "ConfigMap database", "Deployment argo": `Argo CD (Application "shop")`,
			"Job elsewhere": `the controller "example.io/multi-cluster"`, "Deployment flux": "Flux (Kustomization flux-system/apps)",
		}
		It("Fail", func() {
			t := GinkgoTB()
			w := newWorld(t)
			w.managed()
			before := w.workloads(w.ns)
			result, failed := w.failed(w.Quiesce, w.request("a"))
			if failed.Kind != executor.Invalid || len(result.Items) != len(others) {
				t.Errorf("error is %v, refused are %v", failed, result.Items)
			}
			for _, manager := range others {
				says(t, failed.Text, "changed nothing", "is managed by "+manager)
			}
			w.same(before)
		})
		It("Skip", func() {
			t := GinkgoTB()
			w := newWorld(t)
			w.managed()
			req := w.request("a")
			req.WhenManaged = quiesce.Skip
			says(t, w.done(w.Quiesce, req).Message, "2 quiesced, 4 left running")
			w.awaitPods("web", 0)
			w.awaitPods("flux-without", 0)
			w.awaitPods("argo", 1)
		})
		It("Force", func() {
			t := GinkgoTB()
			w := newWorld(t)
			w.managed()
			before := w.workloads(w.ns)
			req := w.request("a")
			req.WhenManaged, req.WaitForPods = quiesce.Force, false // no controller runs the Job
			says(t, w.done(w.Quiesce, req).Message, "6 quiesced")
			w.awaitPods("", 0)
			says(t, w.done(w.Unquiesce, req).Message, "6 unquiesced")
			w.same(before)
		})
	})

	It("causes no conflict with server-side apply", func() {
		t := GinkgoTB()
		w := newWorld(t)
		agent := daemonSet("agent")
		apply := func(replicas int32, disk string) {
			t.Helper()
			web := deployment("web", replicas)
			agent = daemonSet("agent")
			agent.Spec.Template.Spec.NodeSelector["disk"] = disk
			web.APIVersion, web.Kind, agent.APIVersion, agent.Kind = "apps/v1", "Deployment", "apps/v1", "DaemonSet"
			for _, o := range []client.Object{web, agent} {
				o.SetNamespace(w.ns)
				//nolint:staticcheck // as above
				if err := w.Patch(t.Context(), o, client.Apply, client.FieldOwner("kubectl")); err != nil {
					t.Fatal(err)
				}
			}
		}
		apply(2, "ssd")
		w.done(w.Quiesce, w.request("a"))
		w.done(w.Unquiesce, w.request("a"))
		apply(4, "nvme")
		web := &appsv1.Deployment{ObjectMeta: named("web")}
		web.Namespace = w.ns
		w.read(web)
		for _, entry := range append(web.ManagedFields, agent.ManagedFields...) {
			if entry.Manager == quiesce.FieldOwner {
				t.Errorf("Grapnel has the entry %s", entry.FieldsV1)
			}
		}
		if *web.Spec.Replicas != 4 || agent.Spec.Template.Spec.NodeSelector["disk"] != "nvme" {
			t.Errorf("the result has %d replicas and %v", *web.Spec.Replicas, agent.Spec.Template.Spec.NodeSelector)
		}
	})

	It("lets Flux write an unquiesced field again", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.applied("flux", 2)
		req := w.request("a")
		req.WhenManaged = quiesce.Force
		w.done(w.Quiesce, req)
		w.applied("flux", 2)
		result := w.done(w.Unquiesce, req)
		if got := outcome(result, quiesce.Deployment, "flux"); got != quiesce.ChangedSince {
			t.Errorf("it is %s: %s", got, result.Message)
		}
		says(t, result.Message, `set to 2 replicas in the meantime, by "kustomize-controller"`)
		w.done(w.Quiesce, req)
		w.done(w.Unquiesce, req)
		w.applied("flux", 4)
		d := &appsv1.Deployment{ObjectMeta: named("flux")}
		d.Namespace = w.ns
		if w.read(d); *d.Spec.Replicas != 4 {
			t.Errorf("it has %d replicas", *d.Spec.Replicas)
		}
	})

	It("refuses fields that Flux owns", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.applied("flux", 1)
		w.applied("flux-without", 0)
		req := w.request("a")
		req.WhenManaged = quiesce.Force
		w.done(w.Quiesce, req)
		w.done(w.Unquiesce, req)
		d := &appsv1.Deployment{ObjectMeta: named("flux")}
		d.Namespace = w.ns
		w.read(d)
		for _, entry := range d.ManagedFields {
			flux := entry.Manager == "kustomize-controller"
			if entry.Manager == quiesce.FieldOwner || strings.Contains(string(entry.FieldsV1.GetRawBytes()), "f:replicas") != flux && entry.Subresource == "" {
				t.Errorf("%s has the entry %s", entry.Manager, entry.FieldsV1)
			}
		}
		result, failed := w.failed(w.Quiesce, w.request("b"))
		if failed.Kind != executor.Invalid || len(result.Items) != 1 {
			t.Errorf("error is %v, refused are %v", failed, result.Items)
		}
		says(t, failed.Text, "flux is managed by Flux (Kustomization flux-system/apps)")
	})
})
