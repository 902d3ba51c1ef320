// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Quiescing each kind of workload", Label("hooks"), func() {
	It("terminates the pods, and brings them back", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.shop()
		before := w.workloads(w.ns)
		result := w.done(w.Quiesce, w.request("a"))
		says(t, result.Message, "7 quiesced, 2 quiesced before, and all their pods have terminated")
		w.awaitPods("", 0)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(w.workloads(w.ns)))); diff != "" {
			t.Errorf("workloads (-before +quiesced):\n%s", diff)
		}
		req := w.request("a")
		req.Outputs = result.Outputs
		says(t, w.done(w.Unquiesce, req).Message, "7 unquiesced, 2 quiesced before")
		w.same(before)
		w.awaitPods("", 9)
		if again := w.done(w.Unquiesce, req); len(again.Items) > 0 {
			t.Errorf("unquiescing again does something: %+v", again)
		}
	})

	It("quiesces once, and unquiesces at the end of the last Backup", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.shop()
		before := w.workloads(w.ns)
		w.done(w.Quiesce, w.request("a"))
		says(t, w.done(w.Quiesce, w.request("b")).Message, "7 quiesced, 2 quiesced before")
		says(t, w.done(w.Unquiesce, w.request("a")).Message, "9 still held by others")
		w.awaitPods("", 0)
		w.done(w.Quiesce, w.request("c"))
		w.done(w.Unquiesce, w.request("b"))
		w.awaitPods("", 0)
		w.done(w.Unquiesce, w.request("c"))
		w.same(before)
	})

	It("waits for the grace period of a pod", func() {
		t := GinkgoTB()
		w := newWorld(t)
		w.made(statefulSet("db", 1), deployment("web", 1))
		w.awaitPods("", 2)
		for _, pod := range w.pods() {
			w.starts(pod)
		}
		var last quiesce.Result
		suite.Eventually(t, func() string {
			var err error
			if last, err = w.Quiesce(t.Context(), w.request("a")); err != nil || last.RetryAfter == 0 {
				t.Fatalf("it is done while pods run: %q, %v", last.Message, err)
			}
			for _, pod := range w.pods() {
				if pod.DeletionTimestamp == nil {
					return "pod " + pod.Name + " is not terminating"
				}
			}
			return ""
		})
		if last, _ = w.Quiesce(t.Context(), w.request("a")); last.RetryAfter == 0 {
			t.Fatal("it is done while pods end")
		}
		says(t, last.Message, "waiting for 2 pods: ", w.ns+"/db-0 (terminating, grace period 30 s)", w.ns+"/web-")
		for _, pod := range w.pods() {
			w.ends(pod)
		}
		says(t, w.done(w.Quiesce, w.request("a")).Message, "all their pods have terminated")
		w.done(w.Unquiesce, w.request("a"))
		w.awaitPods("", 2)
	})

	It("is not blocked by an autoscaler that does not scale up from 0", func() {
		t := GinkgoTB()
		w := newWorld(t)
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named("web"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(2)), MaxReplicas: 5,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
			}}},
		}}
		web := deployment("web", 3)
		w.made(web, scaler)
		w.done(w.Quiesce, w.request("a"))
		suite.Eventually(t, func() string {
			w.read(scaler)
			for _, c := range scaler.Status.Conditions {
				if c.Type == autoscalingv2.ScalingActive && c.Reason == "ScalingDisabled" {
					return ""
				}
			}
			return "the autoscaler has not observed yet that its target has no replicas"
		})
		if w.read(web); *web.Spec.Replicas != 0 {
			t.Errorf("the autoscaler made it %d replicas", *web.Spec.Replicas)
		}
		w.done(w.Unquiesce, w.request("a"))
		if w.read(web); *web.Spec.Replicas != 3 {
			t.Errorf("unquiesced, it has %d replicas", *web.Spec.Replicas)
		}
	})

	It("refuses a StatefulSet that would lose its volumes", func() {
		t := GinkgoTB()
		w := newWorld(t)
		db := statefulSet("db", 1)
		db.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
		db.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		}}
		db.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.made(db, deployment("web", 1))
		before := w.workloads(w.ns)
		result, failed := w.failed(w.Quiesce, w.request("a"))
		if failed.Kind != executor.Invalid || outcome(result, quiesce.StatefulSet, "db") != quiesce.Refused {
			t.Errorf("error is %v", failed)
		}
		says(t, failed.Text, "changed nothing", "would lose its volumes")
		w.same(before)
	})
})
