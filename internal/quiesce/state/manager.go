// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Marks by which tools know what they manage.
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

// fluxReapplyInterval is how long Flux may take to apply again what somebody else changed: more than the
// usual interval of a Kustomization.
const fluxReapplyInterval = time.Hour

// Autoscaler is a HorizontalPodAutoscaler of a workload.
type Autoscaler struct {
	Name string
	// MinReplicas is the number that it does not go below. It leaves alone what is scaled to
	// 0, unless this is 0.
	MinReplicas int32
	// Owner is the object that controls it, nil if there is none.
	Owner *metav1.OwnerReference
}

// Manager is who would change a workload back.
type Manager struct {
	// Name says who it is, "Flux (Kustomization flux-system/apps)".
	Name string
	// Advice says what to do about it.
	Advice string
}

// ManagerOf returns who would change w back if it were quiesced. The scaler is that of w, nil
// if it has none.
//
// A Deployment that Argo CD or Flux keeps at what is in a repository runs again after minutes,
// while the backup reads its data; if it is quiesced already, it is so there, too. An
// autoscaler does nothing as long as its target has no replicas, and goes on by itself when
// the saved number is back; those that scale from 0 on (KEDA, or minReplicas 0) do not stand
// still, and start also what idles.
func ManagerOf(w Workload, scaler *Autoscaler, now time.Time) (Manager, bool) {
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

// IsOwnedByDeployment says whether a workload is only a part of another one of a built-in kind, which is
// quiesced in its place.
func IsOwnedByDeployment(w Workload) bool {
	return w.Kind == ReplicaSet && w.Owner != nil && w.Owner.Kind == string(Deployment) && isOwnerInAPIGroup(w.Owner, "apps")
}

// IsActionJob says whether a workload is a Job that Grapnel itself runs for an action, perhaps of
// another Backup: that would wait for its end in vain.
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

// isFieldIgnoredByFlux says whether Flux leaves the field alone: because it was told to, or because the
// field is not in the repository. Flux applies on the server's side, where one can see that.
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

// isFieldNotApplied says whether the field is none of those that Flux applies. That it is not noted
// for Flux does not say so: whoever else writes a field takes it from Flux, until Flux applies
// it the next time. It does if nobody else can have taken it, if Flux has applied something
// since and left it, or if Flux had time enough. An autoscaler is one for which the field is
// left out of the repository.
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

// argoCDManager recognises Argo CD. Its old label, app.kubernetes.io/instance, is one that many others
// use; then it is told by what it wrote.
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
	return Manager{Name: "Argo CD (Application " + quoteTruncated(app) + ")", Advice: "switch its self-heal off, and set whenManaged to Force"}, true
}

func autoscalerManager(s *Autoscaler) (Manager, bool) {
	switch {
	case s == nil:
		return Manager{}, false
	case s.Owner != nil && s.Owner.Kind == kedaKind:
		return Manager{
			Name:   "KEDA (ScaledObject " + s.Owner.Name + ")",
			Advice: `pause it by its annotation autoscaling.keda.sh/paused: "true"`,
		}, true
	case s.MinReplicas == 0:
		return Manager{
			Name:   "HorizontalPodAutoscaler " + s.Name + ", which scales from 0 on",
			Advice: "set its minReplicas to 1",
		}, true
	}
	return Manager{}, false
}
