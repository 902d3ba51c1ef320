// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// scale scales a Deployment as an operator or kubectl does.
func (w *world) scale(ctx context.Context, name string, replicas int32, who string) error {
	d := &appsv1.Deployment{ObjectMeta: named(name)}
	d.Namespace = w.ns
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	return w.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale), client.FieldOwner(who))
}

// while runs again repeatedly until meanwhile returns.
func while(t testing.TB, again func(context.Context, int), meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			again(ctx, i)
		}
	})
	meanwhile()
	cancel()
	done.Wait()
}

var _ = Describe("Quiescing workloads that others change", Label("hooks"), func() {
	It("names an operator that reverts the number", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web := deployment("web", 3)
		w.made(web, deployment("api", 2))
		var result quiesce.Result
		while(t, func(ctx context.Context, _ int) {
			var d appsv1.Deployment
			if w.Get(ctx, client.ObjectKeyFromObject(web), &d) == nil && *d.Spec.Replicas == 0 {
				_ = w.scale(ctx, "web", 3, "shop-operator") // it retries failed writes
			}
		}, func() {
			var failed *quiesce.Error
			result, failed = w.failed(w.Quiesce, w.request("a"))
			says(t, failed.Text, "could not quiesce everything: Deployment "+w.ns+"/web was set to 3 replicas 4 times", `by "shop-operator"`, "stop that writer first")
		})
		if outcome(result, quiesce.Deployment, "api") != quiesce.Quiesced {
			t.Errorf("the other one was not tried: %v", result.Items)
		}
		if w.read(web); *web.Spec.Replicas == 0 {
			if err := w.scale(t.Context(), "web", 3, "shop-operator"); err != nil {
				t.Fatal(err)
			}
		}
		result = w.done(w.Unquiesce, w.request("a"))
		if outcome(result, quiesce.Deployment, "web") != quiesce.ChangedSince || outcome(result, quiesce.Deployment, "api") != quiesce.Restored {
			t.Errorf("unquiesced: %v", result.Items)
		}
		if w.read(web); *web.Spec.Replicas != 3 || web.Annotations[quiesce.Annotation] != "" || web.Labels[quiesce.Label] != "" {
			t.Errorf("it has %d replicas, %v, %v", *web.Spec.Replicas, web.Annotations, web.Labels)
		}
	})

	It("succeeds although other fields are written all the time", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web := deployment("web", 3)
		w.made(web)
		while(t, func(ctx context.Context, i int) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.io/heartbeat":"%d"}}}`, i)
			_ = w.Patch(ctx, &appsv1.Deployment{ObjectMeta: web.ObjectMeta}, client.RawPatch("application/merge-patch+json", patch))
			for d := (appsv1.Deployment{}); ctx.Err() == nil && (w.Get(ctx, client.ObjectKeyFromObject(web), &d) != nil || d.Status.ObservedGeneration < d.Generation); {
				d = appsv1.Deployment{}
			}
		}, func() {
			w.done(w.Quiesce, w.request("a"))
			w.done(w.Unquiesce, w.request("a"))
		})
		if w.read(web); *web.Spec.Replicas != 3 {
			t.Errorf("it has %d replicas", *web.Spec.Replicas)
		}
	})

	It("keeps the change of a user", func() {
		t := GinkgoTB()
		w := newWorld(t)
		agent := daemonSet("agent")
		w.made(deployment("up", 3), deployment("off", 3), deployment("left", 3), agent, job("load"))
		before := w.workloads(w.ns)
		w.done(w.Quiesce, w.request("a"))
		w.kubectl("scale", "deployment/up", "--replicas=7")
		w.kubectl("scale", "deployment/off", "--replicas=1")
		w.kubectl("scale", "deployment/off", "--replicas=0")
		w.kubectl("label", "deployment/left", "team=shop")
		// The node selector is one field: whoever writes another key takes over the whole field from
		// Grapnel.
		w.kubectl("patch", "daemonset/agent", "--type=merge", "-p", `{"spec":{"template":{"spec":{"nodeSelector":{"zone":"a"}}}}}`)
		w.kubectl("patch", "job/load", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
		result := w.done(w.Unquiesce, w.request("a"))
		for name, want := range map[string]quiesce.Outcome{"up": quiesce.ChangedSince, "off": quiesce.ChangedSince, "left": quiesce.Restored} {
			if got := outcome(result, quiesce.Deployment, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		says(t, result.Message, `set to 7 replicas in the meantime, by "kubectl`, `off was set to 0 replicas in the meantime`, `was set not to be suspended in the meantime`)
		spec := func(name string) map[string]any { return before[name].(map[string]any)["spec"].(map[string]any) }
		spec("Deployment up")["replicas"], spec("Deployment off")["replicas"] = 7, 0
		before["Deployment left"].(map[string]any)["labels"].(map[string]string)["team"] = "shop"
		if w.read(agent); len(agent.Spec.Template.Spec.NodeSelector) != 2 || agent.Spec.Template.Spec.NodeSelector["zone"] != "a" {
			t.Errorf("the DaemonSet runs on nodes with %v", agent.Spec.Template.Spec.NodeSelector)
		}
		w.kubectl("patch", "daemonset/agent", "--type=merge", "-p", `{"spec":{"template":{"spec":{"nodeSelector":{"zone":null}}}}}`)
		w.same(before)
	})

	It("survives kubectl rollout undo", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web := deployment("web", 3)
		w.made(web)
		w.done(w.Quiesce, w.request("long ended"))
		suite.Eventually(t, func() string {
			var sets appsv1.ReplicaSetList
			if err := w.List(t.Context(), &sets, client.InNamespace(w.ns)); err != nil {
				t.Fatal(err)
			}
			for _, set := range sets.Items {
				if set.Annotations[quiesce.Annotation] != "" {
					return ""
				}
			}
			return "the ReplicaSet did not get the annotation of its Deployment"
		})
		w.done(w.Unquiesce, w.request("long ended"))
		w.kubectl("set", "image", "deployment/web", "main=registry.invalid/web:2")
		suite.Eventually(t, func() string {
			if w.read(web); web.Annotations["deployment.kubernetes.io/revision"] != "2" {
				return "there is no second revision"
			}
			return ""
		})
		w.kubectl("rollout", "undo", "deployment/web")
		if w.read(web); web.Annotations[quiesce.Annotation] == "" {
			t.Fatal("the annotation was not restored")
		}
		w.kubectl("scale", "deployment/web", "--replicas=5")
		req := w.request("a")
		req.WaitForPods, req.WhenManaged = false, quiesce.Force // without a node the rollout cannot finish
		w.done(w.Quiesce, req)
		if w.read(web); *web.Spec.Replicas != 0 {
			t.Errorf("quiesced it has %d replicas", *web.Spec.Replicas)
		}
		w.done(w.Unquiesce, req)
		if w.read(web); *web.Spec.Replicas != 5 || web.Annotations[quiesce.Annotation] != "" {
			t.Errorf("unquiesced, it has %d replicas and %v", *web.Spec.Replicas, web.Annotations)
		}
	})

	It("does not write to another object of the same name", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web := deployment("web", 3)
		w.made(web)
		var anew sync.Once
		raced := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				anew.Do(func() {
					if err := w.Delete(ctx, web); err != nil {
						t.Error(err)
					}
					other := deployment("web", 4)
					suite.Eventually(t, func() string {
						if other.Namespace, other.ResourceVersion = w.ns, ""; w.Create(ctx, other) != nil {
							return "the old one is still there"
						}
						return ""
					})
				})
				return c.Patch(ctx, o, p, opts...)
			},
		})
		q := quiesce.New(raced, quiesce.Options{})
		result := w.done(q.Quiesce, w.request("a"))
		if outcome(result, quiesce.Deployment, "web") != quiesce.Quiesced {
			t.Errorf("it became %v", result.Items)
		}
		w.done(q.Unquiesce, w.request("a"))
		if w.read(web); *web.Spec.Replicas != 4 {
			t.Errorf("unquiesced, it has %d replicas, want 4", *web.Spec.Replicas)
		}
	})
})
