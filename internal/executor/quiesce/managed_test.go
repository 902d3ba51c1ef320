// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func TestQuiesce_WhenManaged(t *testing.T) {
	t.Parallel()
	managed := func() []client.Object {
		owned := statefulSet("db", 3)
		owned.OwnerReferences = ownedBy("db.io/v1", "Database", "main")
		argo := deployment("web", 2)
		argo.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"}
		return []client.Object{owned, argo, deployment("api", 1)}
	}
	t.Run("Fail", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, managed()...)
		before := w.all()
		result, err := w.Quiesce(t.Context(), request())
		failed := new(quiesce.Error)
		if !errors.As(err, &failed) || failed.Kind != executor.Invalid {
			t.Fatalf("error is %v", err)
		}
		says(t, failed.Text, "changed nothing", "StatefulSet shop/db is managed by Database main", `Argo CD (Application "shop")`, "whenManaged")
		expect(t, result, map[string]quiesce.Outcome{"StatefulSet shop/db": quiesce.Refused, "Deployment shop/web": quiesce.Refused})
		if w.patches != 0 {
			t.Errorf("%d writes", w.patches)
		}
		w.same(before)
	})
	t.Run("Skip", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, managed()...)
		req := request()
		req.WhenManaged = quiesce.Skip
		result := w.done(w.Quiesce, req)
		expect(t, result, map[string]quiesce.Outcome{
			"StatefulSet shop/db": quiesce.LeftOut, "Deployment shop/web": quiesce.LeftOut, "Deployment shop/api": quiesce.Quiesced,
		})
		says(t, result.Message, "2 left running: ", "Database main")
		if diff := cmp.Diff([]string{"shop/api"}, w.stopped()); diff != "" {
			t.Errorf("stopped (-want +got):\n%s", diff)
		}
	})
	t.Run("Force", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, managed()...)
		before := w.all()
		req := request()
		req.WhenManaged = quiesce.Force
		w.done(w.Quiesce, req)
		if diff := cmp.Diff([]string{"shop/api", "shop/db", "shop/web"}, w.stopped()); diff != "" {
			t.Errorf("stopped (-want +got):\n%s", diff)
		}
		w.done(w.Unquiesce, req)
		w.same(before)
	})
}

// TestQuiesce_LateRefusal: a refusal appears after other workloads were stopped. Those start again, at
// once or as soon as they can be written, and the error says so.
func TestQuiesce_LateRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 2), deployment("idle", 0), deployment("shared", 1))
	other := of("other")
	other.Selector = labels.SelectorFromSet(labels.Set{"app": "shared"})
	w.done(w.Quiesce, other)
	if _, err := w.Quiesce(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	argo := deployment("argo", 2)
	argo.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/argo"}
	w.create(argo)
	w.onPatch = func(o client.Object) error {
		if o.GetName() == "web" {
			return errors.New("refused by the test")
		}
		return nil
	}
	failed := new(quiesce.Error)
	if _, err := w.Quiesce(t.Context(), request()); !errors.As(err, &failed) || failed.Kind == executor.Invalid {
		t.Fatalf("error is %v", err)
	}
	says(t, failed.Text, "could not be unquiesced yet", "Deployment shop/web could not be read or written", "Deployment shop/argo is managed by Argo CD")
	w.onPatch = nil
	result, err := w.Quiesce(t.Context(), request())
	if !errors.As(err, &failed) || failed.Kind != executor.Invalid {
		t.Fatalf("error is %v", err)
	}
	expect(t, result, map[string]quiesce.Outcome{"Deployment shop/argo": quiesce.Refused})
	says(t, failed.Text, "were unquiesced", "Deployment shop/web: Restored", "Deployment shop/argo is managed by Argo CD")
	if diff := cmp.Diff([]string{"shop/idle", "shop/shared"}, w.stopped()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	if _, err = w.Quiesce(t.Context(), request()); !errors.As(err, &failed) {
		t.Fatalf("error is %v", err)
	}
	says(t, failed.Text, "changed nothing")
}

// TestQuiesce_RefusedWithUnreadableState: the holder of an unreadable state is unknown, so this run
// does not count as the one that stopped the workload.
func TestQuiesce_RefusedWithUnreadableState(t *testing.T) {
	t.Parallel()
	odd, argo := deployment("odd", 0), deployment("argo", 2)
	odd.Annotations, odd.Labels[quiesce.Label] = map[string]string{quiesce.Annotation: "x"}, "true"
	argo.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/argo"}
	w := newWorld(t, odd, argo)
	failed := new(quiesce.Error)
	if _, err := w.Quiesce(t.Context(), request()); !errors.As(err, &failed) || failed.Kind != executor.Invalid {
		t.Fatalf("error is %v", err)
	}
	says(t, failed.Text, "changed nothing", "Deployment shop/argo is managed by Argo CD")
}

// TestQuiesce_VolumeRetentionPolicy: scaling the StatefulSet down would delete its volumes, so every policy
// refuses.
func TestQuiesce_VolumeRetentionPolicy(t *testing.T) {
	t.Parallel()
	db := statefulSet("db", 3)
	db.Spec.VolumeClaimTemplates = make([]corev1.PersistentVolumeClaim, 1)
	db.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	for policy, want := range map[quiesce.Policy]quiesce.Outcome{
		quiesce.Fail: quiesce.Refused, quiesce.Force: quiesce.Refused, quiesce.Skip: quiesce.LeftOut,
	} {
		w := newWorld(t, db.DeepCopy())
		req := request()
		req.WhenManaged = policy
		result, err := w.until(w.Quiesce, req)
		if (err != nil) != (want == quiesce.Refused) || w.patches != 0 {
			t.Errorf("%s: %v, %d writes", policy, err, w.patches)
		}
		expect(t, result, map[string]quiesce.Outcome{"StatefulSet shop/db": want})
	}
}

// TestQuiesce_Autoscaler: an autoscaler that ignores 0 replicas does not block, one that scales up
// from 0 does.
func TestQuiesce_Autoscaler(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		min    *int32
		owners []metav1.OwnerReference
		text   string
	}{
		"ordinary": {min: nil},
		"from 0":   {min: new(int32(0)), text: "HorizontalPodAutoscaler hpa"},
		"KEDA":     {min: new(int32(1)), owners: ownedBy("keda.sh/v1alpha1", "ScaledObject", "web"), text: "KEDA (ScaledObject web)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("web", 3), deployment("api", 3), newAutoscaler("hpa", tc.min, tc.owners...))
			_, err := w.until(w.Quiesce, request())
			if (err != nil) != (tc.text != "") {
				t.Fatalf("error is %v", err)
			}
			if err != nil {
				says(t, err.Error(), "Deployment shop/web is managed by", tc.text)
			}
		})
	}
}

// newAutoscaler returns an autoscaler of the Deployment web.
func newAutoscaler(name string, minReplicas *int32, owners ...metav1.OwnerReference) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metaOf(name), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MinReplicas: minReplicas, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
	}}
	hpa.OwnerReferences = owners
	return hpa
}

// TestQuiesce_IdleAutoscaler: an autoscaler that scales up from 0 may start an idle workload at any
// time, so it also blocks then.
func TestQuiesce_IdleAutoscaler(t *testing.T) {
	t.Parallel()
	idle := func() *world {
		return newWorld(t, deployment("web", 0), deployment("api", 3), newAutoscaler("hpa", new(int32(0))))
	}
	w := idle()
	_, err := w.until(w.Quiesce, request())
	if err == nil || w.patches > 0 {
		t.Fatalf("error is %v, %d writes", err, w.patches)
	}
	says(t, err.Error(), "Deployment shop/web is managed by HorizontalPodAutoscaler hpa", "minReplicas")

	w = idle()
	req := request()
	req.WhenManaged = quiesce.Skip
	expect(t, w.done(w.Quiesce, req), map[string]quiesce.Outcome{"Deployment shop/web": quiesce.LeftOut, "Deployment shop/api": quiesce.Quiesced})

	w = idle()
	req.WhenManaged = quiesce.Force
	expect(t, w.done(w.Quiesce, req), map[string]quiesce.Outcome{"Deployment shop/web": quiesce.AlreadyQuiesced, "Deployment shop/api": quiesce.Quiesced})
	w.scale("web", 2, "autoscaler")
	expect(t, w.done(w.Quiesce, req), map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Quiesced, "Deployment shop/api": quiesce.Quiesced})
	w.done(w.Unquiesce, req)
	if got := w.replicas("web"); got != 2 {
		t.Errorf("unquiesced, it has %d replicas, want the 2 that the autoscaler gave it", got)
	}
}
