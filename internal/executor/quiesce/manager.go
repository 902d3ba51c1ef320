// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels and annotations by which tools mark what they manage.
const (
	fluxKustomize   = "kustomize.toolkit.fluxcd.io/"
	fluxHelm        = "helm.toolkit.fluxcd.io/"
	argoTracking    = "argocd.argoproj.io/tracking-id"
	argoInstance    = "argocd.argoproj.io/instance"
	argoManager     = "argocd-"
	kueueQueue      = "kueue.x-k8s.io/queue-name"
	kustomizeWriter = "kustomize-controller"
	kedaKind        = "ScaledObject"
	// internal/executor/job puts these on its Jobs.
	actionManager = "app.kubernetes.io/managed-by"
	actionKey     = "grapnel.dev/idempotency-key"
)

// fluxReapplyInterval is how long Flux may take to apply again what others changed. It is longer
// than the usual interval of a Kustomization.
const fluxReapplyInterval = time.Hour

// Manager is something that would start a quiesced workload again.
type Manager struct {
	// Name describes the manager, such as "Flux (Kustomization flux-system/apps)".
	Name string
	// Advice says what to do about it.
	Advice string
}

// ManagerOf returns the manager that would start w again if it were quiesced. scaler is the
// autoscaler whose target is w, or nil.
//
// Argo CD or Flux reset a Deployment to what a repository contains after minutes, while the backup
// reads its data; a workload that is already quiesced is quiesced in the repository, too. An
// ordinary autoscaler does nothing while its target has no replicas, and continues when the saved
// number is back. Those that scale up from 0 (KEDA, or minReplicas 0) stay active, and also start
// idle workloads.
func ManagerOf(w Workload, scaler *autoscalingv2.HorizontalPodAutoscaler, now time.Time) (Manager, bool) {
	if w.IsQuiesced() {
		return autoscalerManager(scaler)
	}
	byFlux := func(w Workload) (Manager, bool) { return fluxManager(w, scaler != nil, now) }
	for _, found := range []func(Workload) (Manager, bool){ownerManager, jobManager, byFlux, argoCDManager} {
		if m, ok := found(w); ok {
			return m, true
		}
	}
	return autoscalerManager(scaler)
}

func ownerManager(w Workload) (Manager, bool) {
	if w.Owner == nil || (w.Kind == Job && w.Owner.Kind == string(CronJob) && isOwnerInAPIGroup(w.Owner, "batch")) {
		return Manager{}, false
	}
	name := w.Owner.Kind + " " + w.Owner.Name
	return Manager{Name: name, Advice: "stop the application by means of its " + w.Owner.Kind}, true
}

// IsOwnedByDeployment reports whether a workload is a part of another one of a built-in kind, which
// is quiesced instead.
func IsOwnedByDeployment(w Workload) bool {
	return w.Kind == ReplicaSet && w.Owner != nil && w.Owner.Kind == string(Deployment) && isOwnerInAPIGroup(w.Owner, "apps")
}

// IsActionJob reports whether a workload is a Job that Grapnel itself runs for an action, possibly
// of another Backup. Quiescing it would make that Backup wait in vain.
func IsActionJob(w Workload) bool {
	return w.Kind == Job && w.Labels[actionManager] == "grapnel" && w.Labels[actionKey] != ""
}

func isOwnerInAPIGroup(owner *metav1.OwnerReference, group string) bool {
	return strings.HasPrefix(owner.APIVersion, group+"/")
}

func jobManager(w Workload) (Manager, bool) {
	switch {
	case w.JobController != "":
		return Manager{Name: "the controller " + quoteTruncated(w.JobController), Advice: "stop the Job there"}, true
	case w.Kind == Job && w.Labels[kueueQueue] != "":
		return Manager{Name: "Kueue", Advice: "stop its queue first"}, true
	}
	return Manager{}, false
}

func fluxManager(w Workload, scaled bool, now time.Time) (Manager, bool) {
	const advice = "suspend it there, and set whenManaged to Force"
	switch {
	case w.Labels[fluxKustomize+"name"] != "" && !isFieldIgnoredByFlux(w, scaled, now):
		return Manager{Name: fmt.Sprintf("Flux (Kustomization %s/%s)",
			w.Labels[fluxKustomize+"namespace"], w.Labels[fluxKustomize+"name"]), Advice: advice}, true
	case w.Labels[fluxHelm+"name"] != "" && w.Annotations[fluxHelm+"driftDetection"] != "disabled":
		return Manager{Name: fmt.Sprintf("Flux (HelmRelease %s/%s)",
			w.Labels[fluxHelm+"namespace"], w.Labels[fluxHelm+"name"]), Advice: advice}, true
	}
	return Manager{}, false
}

// isFieldIgnoredByFlux reports whether Flux leaves the field alone, because it is configured to or
// because the repository does not set the field. Flux uses server-side apply, which makes the
// latter visible in managedFields.
func isFieldIgnoredByFlux(w Workload, scaled bool, now time.Time) bool {
	switch mode := w.Annotations[fluxKustomize+"ssa"]; {
	case w.Annotations[fluxKustomize+"reconcile"] == "disabled", strings.EqualFold(mode, "Ignore"), strings.EqualFold(mode, "IfNotPresent"):
		return true
	}
	for _, entry := range w.ManagedFields {
		if entry.Manager == kustomizeWriter && entry.Operation == metav1.ManagedFieldsOperationApply {
			return isFieldNotApplied(w, entry, scaled, now)
		}
	}
	return false
}

// isFieldNotApplied reports whether Flux does not apply the field. A missing entry of Flux in
// managedFields is no proof: any other writer of the field takes it over until Flux applies it the
// next time. It is one if no other manager can have taken over the field, if Flux has applied
// something since and left the field alone, or if Flux has had enough time. For a workload with an
// autoscaler, the field is usually omitted in the repository.
func isFieldNotApplied(w Workload, flux metav1.ManagedFieldsEntry, scaled bool, now time.Time) bool {
	by := quiesceFieldWriters(w)
	for _, entry := range by {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			return false
		}
	}
	switch {
	case scaled:
		return true
	case len(by) == 0:
		return w.hasDefaultValue()
	}
	last := by[len(by)-1].Time
	return last != nil && (now.Sub(last.Time) >= fluxReapplyInterval || (flux.Time != nil && flux.Time.After(last.Time)))
}

// argoCDManager detects Argo CD. Many tools use its old label, app.kubernetes.io/instance; a
// workload with only that label belongs to Argo CD if Argo CD wrote to it.
func argoCDManager(w Workload) (Manager, bool) {
	app, _, _ := strings.Cut(w.Annotations[argoTracking], ":")
	if app == "" {
		app = w.Labels[argoInstance]
	}
	for _, entry := range w.ManagedFields {
		if app == "" && strings.HasPrefix(entry.Manager, argoManager) {
			app = w.Labels["app.kubernetes.io/instance"]
		}
	}
	if app == "" {
		return Manager{}, false
	}
	return Manager{Name: "Argo CD (Application " + quoteTruncated(app) + ")", Advice: "disable its self-heal, and set whenManaged to Force"}, true
}

// autoscalerManager detects an autoscaler that does not ignore a target that is scaled to 0.
func autoscalerManager(scaler *autoscalingv2.HorizontalPodAutoscaler) (Manager, bool) {
	if scaler == nil {
		return Manager{}, false
	}
	if owner := metav1.GetControllerOf(scaler); owner != nil && owner.Kind == kedaKind {
		return Manager{
			Name:   "KEDA (ScaledObject " + owner.Name + ")",
			Advice: `pause it with the annotation autoscaling.keda.sh/paused: "true"`,
		}, true
	}
	if least := scaler.Spec.MinReplicas; least != nil && *least == 0 {
		return Manager{
			Name:   "HorizontalPodAutoscaler " + scaler.Name + ", which scales up from 0",
			Advice: "set its minReplicas to 1",
		}, true
	}
	return Manager{}, false
}
