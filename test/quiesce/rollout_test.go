// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Quiescing during a rollout", Label("hooks"), func() {
	It("waits until the rollout has finished", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web, api := deployment("web", 2), deployment("api", 1)
		w.made(web, api)
		w.awaitPods("", 3)
		w.startsAll()
		w.kubectl("set", "image", "deployment/web", "main=registry.invalid/web:2")
		result, err := w.Quiesce(t.Context(), w.request("a"))
		if err != nil || result.RetryAfter == 0 {
			t.Fatalf("it does not wait: %q, %v", result.Message, err)
		}
		says(t, result.Message, "Waiting for rollouts to finish: Deployment "+w.ns+"/web is in the middle of a rollout")
		w.read(web)
		if w.read(api); *web.Spec.Replicas != 2 || *api.Spec.Replicas != 1 {
			t.Errorf("in the meantime they have %d and %d replicas", *web.Spec.Replicas, *api.Spec.Replicas)
		}
		w.kubectl("rollout", "undo", "deployment/web")
		says(t, w.done(w.Quiesce, w.withoutWaiting()).Message, "2 quiesced")
	})

	It("refuses a rollout that is halted on purpose", func() {
		t := GinkgoTB()
		w := newWorld(t)
		web, db := deployment("web", 3), statefulSet("db", 2)
		db.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(1))}
		w.made(web, db)
		w.awaitPods("", 5)
		w.startsAll()
		w.kubectl("set", "image", "deployment/web", "main=registry.invalid/web:2")
		suite.Eventually(t, func() string {
			if w.read(web); web.Status.UpdatedReplicas == 0 {
				return "there is no canary"
			}
			return ""
		})
		w.kubectl("rollout", "pause", "deployment/web")
		w.kubectl("set", "image", "statefulset/db", "main=registry.invalid/db:2")
		suite.Eventually(t, func() string {
			if w.read(db); db.Status.UpdateRevision == db.Status.CurrentRevision {
				return "there is no second revision"
			}
			return ""
		})
		before := w.workloads(w.ns)
		result, failed := w.failed(w.Quiesce, w.request("a"))
		if failed.Kind != executor.Invalid || outcome(result, quiesce.Deployment, "web") != quiesce.Refused || outcome(result, quiesce.StatefulSet, "db") != quiesce.Refused {
			t.Errorf("error is %v, %v", failed, result.Items)
		}
		says(t, failed.Text, "changed nothing", w.ns+"/web is in the middle of a rollout", w.ns+"/db is in the middle of a rollout")
		w.same(before)
		w.kubectl("set", "image", "deployment/web", "main=registry.invalid/web")
		w.kubectl("rollout", "resume", "deployment/web")
		w.kubectl("set", "image", "statefulset/db", "main=registry.invalid/db")
		says(t, w.done(w.Quiesce, w.withoutWaiting()).Message, "2 quiesced")
	})
})

// startsAll starts all existing pods, as a node does.
func (w *world) startsAll() {
	w.Helper()
	for _, pod := range w.pods() {
		w.starts(pod)
	}
}

// withoutWaiting returns a request that does not wait for pods to terminate; no node terminates
// them here.
func (w *world) withoutWaiting() quiesce.Request {
	req := w.request("a")
	req.WaitForPods = false
	return req
}
