// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func labelled(pairs ...string) change {
	return func(w *quiesce.Workload) {
		w.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			w.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func noted(key, value string) change {
	return func(w *quiesce.Workload) { w.Annotations = map[string]string{key: value} }
}

func newOwnerReferences(apiVersion, kind, name string) change {
	return func(w *quiesce.Workload) {
		w.Owner = &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// applied records what Flux applied.
func applied(fields string) change {
	return func(w *quiesce.Workload) {
		w.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kustomize-controller", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}}
	}
}

// appliedAt is applied at a given time.
func appliedAt(fields string, since time.Duration) change {
	return func(w *quiesce.Workload) {
		applied(fields)(w)
		w.ManagedFields[0].Time = &metav1.Time{Time: now.Add(since)}
	}
}

// writtenAt records when others set the field that quiesces a Deployment.
func writtenAt(since time.Duration) change {
	return func(w *quiesce.Workload) {
		written("kubectl")(w)
		w.ManagedFields[len(w.ManagedFields)-1].Time = &metav1.Time{Time: now.Add(since)}
	}
}

func picky(w *quiesce.Workload) { w.NodeSelector = map[string]string{"disk": "ssd"} }

func TestManagerOf(t *testing.T) {
	t.Parallel()
	fluxed := labelled("kustomize.toolkit.fluxcd.io/name", "apps", "kustomize.toolkit.fluxcd.io/namespace", "flux-system")
	const withReplicas, without = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	for name, tc := range map[string]struct {
		workload quiesce.Workload
		scaler   *autoscalingv2.HorizontalPodAutoscaler
		want     string
	}{
		"unmanaged":                     {workload: web()},
		"quiesced already":              {workload: web(replicas(0), newOwnerReferences("db.io/v1", "Database", "main"))},
		"an operator":                   {workload: web(newOwnerReferences("db.io/v1", "Database", "main")), want: "Database main"},
		"its CronJob":                   {workload: web(kind(quiesce.Job), newOwnerReferences("batch/v1", "CronJob", "nightly"))},
		"a CronJob of others":           {workload: web(kind(quiesce.Job), newOwnerReferences("other.io/v1", "CronJob", "nightly")), want: "CronJob nightly"},
		"a rollout":                     {workload: web(kind(quiesce.ReplicaSet), newOwnerReferences("argoproj.io/v1alpha1", "Rollout", "web")), want: "Rollout web"},
		"another controller of Jobs":    {workload: web(kind(quiesce.Job), func(w *quiesce.Workload) { w.JobController = "x.io/y" }), want: `controller "x.io/y"`},
		"Kueue":                         {workload: web(kind(quiesce.Job), labelled("kueue.x-k8s.io/queue-name", "q")), want: "Kueue"},
		"Flux, nothing known of fields": {workload: web(fluxed), want: "Kustomization flux-system/apps"},
		"Flux applies it":               {workload: web(fluxed, applied(withReplicas)), want: "Kustomization flux-system/apps"},
		"Flux leaves it out":            {workload: web(fluxed, replicas(1), applied(without))},
		"Flux, and no manager":          {workload: web(fluxed, applied(without)), want: "Kustomization flux-system/apps"},
		"Flux, scaled a moment ago":     {workload: web(fluxed, applied(without), writtenAt(-time.Minute)), want: "Kustomization flux-system/apps"},
		"Flux, scaled long ago":         {workload: web(fluxed, applied(without), writtenAt(-time.Hour))},
		"Flux, applied since":           {workload: web(fluxed, appliedAt(without, 0), writtenAt(-time.Minute))},
		"Flux, applied before":          {workload: web(fluxed, appliedAt(without, -time.Hour), writtenAt(-time.Minute)), want: "Kustomization flux-system/apps"},
		"Flux, scaled by an autoscaler": {
			workload: web(fluxed, applied(without), writtenAt(-time.Minute)), scaler: newAutoscaler("web", new(int32(1))),
		},
		"Flux leaves a CronJob":    {workload: web(fluxed, kind(quiesce.CronJob), applied(without))},
		"Flux leaves a DaemonSet":  {workload: web(fluxed, kind(quiesce.DaemonSet), applied(without))},
		"Flux, and a selector":     {workload: web(fluxed, kind(quiesce.DaemonSet), picky, applied(without)), want: "Kustomization flux-system/apps"},
		"Flux, another writes":     {workload: web(fluxed, written("kubectl")), want: "Kustomization flux-system/apps"},
		"Flux is disabled":         {workload: web(fluxed, noted("kustomize.toolkit.fluxcd.io/reconcile", "disabled"))},
		"Flux only creates":        {workload: web(fluxed, noted("kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent"))},
		"Flux by Helm":             {workload: web(labelled("helm.toolkit.fluxcd.io/name", "web", "helm.toolkit.fluxcd.io/namespace", "shop")), want: "HelmRelease shop/web"},
		"Helm without Flux":        {workload: web(labelled("app.kubernetes.io/managed-by", "Helm", "app.kubernetes.io/instance", "web"))},
		"Argo CD by annotation":    {workload: web(noted("argocd.argoproj.io/tracking-id", "shop:apps/Deployment:shop/web")), want: `Application "shop"`},
		"Argo CD by label":         {workload: web(labelled("argocd.argoproj.io/instance", "shop")), want: `Application "shop"`},
		"Argo CD by what it wrote": {workload: web(labelled("app.kubernetes.io/instance", "shop"), written("argocd-controller")), want: `Application "shop"`},
		"HPA":                      {workload: web(), scaler: newAutoscaler("web", new(int32(1)))},
		"HPA from 0":               {workload: web(), scaler: newAutoscaler("web", new(int32(0))), want: "HorizontalPodAutoscaler web"},
		"HPA, idle":                {workload: web(replicas(0)), scaler: newAutoscaler("web", new(int32(1)))},
		"HPA from 0, idle":         {workload: web(replicas(0)), scaler: newAutoscaler("web", new(int32(0))), want: "HorizontalPodAutoscaler web"},
		"KEDA, idle": {
			workload: web(replicas(0)), want: "ScaledObject web",
			scaler: newAutoscaler("keda-hpa-web", new(int32(1)), ownedBy("keda.sh/v1alpha1", "ScaledObject", "web")...),
		},
		"KEDA": {
			workload: web(), want: "ScaledObject web",
			scaler: newAutoscaler("keda-hpa-web", new(int32(1)), ownedBy("keda.sh/v1alpha1", "ScaledObject", "web")...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, managed := quiesce.ManagerOf(tc.workload, tc.scaler, now)
			if managed != (tc.want != "") || !strings.Contains(got.Name, tc.want) {
				t.Errorf("managed by %q (%v), want %q", got.Name, managed, tc.want)
			}
			if managed && got.Advice == "" {
				t.Error("no advice")
			}
		})
	}
}
