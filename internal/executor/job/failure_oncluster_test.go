// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// slowly is long enough for controllers on a busy machine, and is the duration of a test that waits
// until it elapses.
const slowly = 15 * time.Second

// quota limits a resource of the namespace to zero, and waits until the quota is enforced.
func (r *room) quota(t testing.TB, name corev1.ResourceName) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{name: resource.MustParse("0")}
	if err := r.admin.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	await(t, "the quota", func() bool {
		return r.admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota) == nil && len(quota.Status.Hard) > 0
	})
}

var _ = Describe("Jobs that fail", Label("hooks"), func() {
	It("reports an image that cannot be pulled", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.options.StartTimeout = slowly
		x := r.run(t)
		r.node.becomes(t, r.pod(t), corev1.PodPending, waitingFor("ErrImagePull", `failed to pull "registry.example/freeze:1": not found`))
		x.fails(t, executor.Unreachable, `its image cannot be pulled: ErrImagePull: failed to pull "registry.example/freeze:1": not found`)
		r.nothingLeft(t)
	})

	It("reports a quota of pods", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.quota(t, corev1.ResourcePods)
		r.options.StartTimeout = slowly
		x := r.run(t)
		x.fails(t, executor.Unreachable, "did not start within 15s: its pod has not been created (Error creating: pods")
		x.fails(t, executor.Unreachable, "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0")
		r.nothingLeft(t)
	})

	It("reports a quota of Jobs", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.quota(t, "count/jobs.batch")
		r.run(t).fails(t, executor.Unreachable, "exceeded quota: none, requested: count/jobs.batch=1")
		r.nothingLeft(t)
	})

	// Requests more than the namespace allows.
	It("reports a pod that is refused", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.options.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		r.options.StartTimeout = slowly
		x := r.run(t)
		x.fails(t, executor.Unreachable, `violates PodSecurity "restricted:latest": privileged`)
		r.nothingLeft(t)
	})

	It("reports a namespace that does not exist", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.options.Namespace, r.options.Client = "nowhere", r.admin
		r.run(t).fails(t, executor.Unreachable, `its Job could not be created: namespaces "nowhere" not found`)
	})

	It("says which permissions it lacks", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		r.options.StartTimeout = time.Second // otherwise the test waits a minute for them
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "operator"}}
		if err := r.admin.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		x := r.run(t)
		x.fails(t, executor.Unreachable, "listing the Jobs of earlier attempts failed: jobs.batch is forbidden")
	})

	// Simulates a node that is out of memory.
	It("reports an eviction by the node", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		x := r.run(t)
		pod := r.startsPod(t)
		r.node.change(t, pod, func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			pod.Status.ContainerStatuses = nil
		})
		x.fails(t, executor.Unreachable, "its pod was evicted before it answered: The node was low on resource: memory.")
		r.recorded(t, call())
	})

	// Simulates a node that is drained.
	It("reports an eviction by the API", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		x := r.run(t)
		pod := r.startsPod(t)
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		if err := r.admin.SubResource("eviction").Create(t.Context(), pod, eviction); err != nil {
			t.Fatal(err)
		}
		<-x.done
		// The pod may be deleted before the executor observes it.
		if executor.ErrorKindOf(x.err) != executor.Unreachable {
			t.Errorf("error is %s %v", executor.ErrorKindOf(x.err), x.err)
		}
		r.stop(t, call())
	})

	// Simulates a pod that cannot terminate: no other may be started beside it.
	It("starts no pod beside one on a lost node", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		x := r.execute(ctx, t, call())
		pod := r.startsPod(t)
		r.node.mu.Lock()
		r.node.stuck[pod.UID] = true
		r.node.mu.Unlock()
		if err := r.admin.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		await(t, "that the pod is terminating", func() bool { return r.pod(t).DeletionTimestamp != nil })
		select {
		case <-x.done:
			t.Fatalf("it returned %v although the pod may run", x.err)
		default:
		}
		if n := len(r.jobs(t)); n != 1 {
			t.Errorf("there are %d Jobs", n)
		}
		r.node.mu.Lock()
		delete(r.node.stuck, pod.UID)
		r.node.mu.Unlock()
		r.node.change(t, pod, func(pod *corev1.Pod) { pod.Labels["touched"] = "true" })
		r.node.end(t.Context(), pod)
		<-x.done
		if executor.ErrorKindOf(x.err) != executor.Unreachable {
			t.Errorf("error is %s %v", executor.ErrorKindOf(x.err), x.err)
		}
		r.stop(t, call())
	})
})
