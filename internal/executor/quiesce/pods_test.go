// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// podsWorld has pods of a Deployment, a CronJob and a StatefulSet, one of a ReplicaSet that was
// removed in a rollout, and others.
func podsWorld(t *testing.T) *world {
	t.Helper()
	set, run := replicaSet("web-1", 3), job("nightly-1")
	set.OwnerReferences = ownedBy("apps/v1", "Deployment", "web")
	run.OwnerReferences = ownedBy("batch/v1", "CronJob", "nightly")
	ended := pod("web-done", ownedBy("apps/v1", "ReplicaSet", "web-1"))
	ended.Status.Phase = corev1.PodFailed
	elsewhere := pod("elsewhere", ownedBy("apps/v1", "ReplicaSet", "removed"))
	elsewhere.Namespace = "office"
	return newWorld(t, elsewhere, pod("web-old", ownedBy("apps/v1", "ReplicaSet", "web-0")), deployment("web", 3), set, cronJob("nightly"), run, statefulSet("db", 1), ended,
		pod("web-a", ownedBy("apps/v1", "ReplicaSet", "web-1")), pod("nightly-a", ownedBy("batch/v1", "Job", "nightly-1")),
		pod("db-0", ownedBy("apps/v1", "StatefulSet", "db")), pod("alone", nil), pod("other", ownedBy("x.io/v1", "Thing", "thing")),
	)
}

func TestWaitForPods(t *testing.T) {
	t.Parallel()
	w := podsWorld(t)
	req := request()
	req.WaitForPods = true
	req.Kinds = []quiesce.WorkloadKind{quiesce.CronJob, quiesce.Deployment, quiesce.StatefulSet}
	next := func() quiesce.Result {
		t.Helper()
		result, err := w.Quiesce(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	next()
	result := next()
	says(t, result.Message, "waiting for 4 pods: shop/db-0 (not terminating yet); shop/nightly-a (not terminating yet); shop/web-a")
	for i, name := range []string{"nightly-a", "web-a", "db-0", "web-old"} {
		if result.RetryAfter < executor.MinRetryAfter {
			t.Fatalf("done with %d pods left", 4-i)
		}
		if err := w.Delete(t.Context(), pod(name, nil)); err != nil {
			t.Fatal(err)
		}
		result = next()
	}
	if result.RetryAfter != 0 {
		t.Errorf("all pods have terminated, but the message is %q", result.Message)
	}
	says(t, result.Message, "all their pods have terminated")
}

// TestQuiesce_StuckPods: the message names stuck pods and the reason.
func TestQuiesce_StuckPods(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 8 {
		p := pod(fmt.Sprintf("db-%d", i), ownedBy("apps/v1", "StatefulSet", "db"))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: start.Add(time.Hour)}, new(int64(3600))
		p.Finalizers = []string{"x.io/slow"}
		p.Spec.NodeName = "node-1"
		if i > 5 {
			p.DeletionTimestamp = &metav1.Time{Time: start.Add(-time.Hour)}
		}
		objects = append(objects, p)
	}
	w := newWorld(t, append(objects, statefulSet("db", 8))...)
	req := request()
	req.WaitForPods = true
	if _, err := w.Quiesce(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	result, err := w.Quiesce(t.Context(), req)
	if err != nil || result.RetryAfter == 0 {
		t.Fatalf("%+v, error %v", result, err)
	}
	if result.RetryAfter != 3*time.Second {
		t.Errorf("retries after %s", result.RetryAfter)
	}
	w.now = start.Add(10 * time.Minute)
	if late, err := w.Quiesce(t.Context(), req); err != nil || late.RetryAfter != 15*time.Second {
		t.Errorf("after ten minutes it retries after %s (%v)", late.RetryAfter, err)
	}
	says(t, result.Message, "waiting for 8 pods: shop/db-6 (stuck: its grace period is over, finalizers x.io/slow); shop/db-7 (stuck",
		"shop/db-0 (terminating, grace period 3600 s)", "and 3 more")
}

// TestQuiesce_PodListError: Quiesce is not done while the pods are unknown.
func TestQuiesce_PodListError(t *testing.T) {
	t.Parallel()
	w := podsWorld(t)
	w.onList = func(l client.ObjectList, _ *client.ListOptions) error {
		if _, pods := l.(*corev1.PodList); pods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no rights"))
		}
		return nil
	}
	req := request()
	req.WaitForPods = true
	_, err := w.until(w.Quiesce, req)
	if err == nil {
		t.Fatal("done without having seen the pods")
	}
	says(t, err.Error(), "list the remaining pods", "no rights")
}
