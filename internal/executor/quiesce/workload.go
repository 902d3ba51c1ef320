// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WorkloadKind is a kind of workload.
type WorkloadKind string

// The kinds that can be quiesced.
const (
	// CronJob is suspended. Jobs that it has started continue unless they are quiesced, too.
	CronJob WorkloadKind = "CronJob"
	// Job is suspended, which deletes its pods; the Job repeats their work later.
	Job WorkloadKind = "Job"
	// Deployment is scaled to 0.
	Deployment WorkloadKind = "Deployment"
	// ReplicaSet is scaled to 0 if it has no owner.
	ReplicaSet WorkloadKind = "ReplicaSet"
	// DaemonSet gets a node selector that no node has.
	DaemonSet WorkloadKind = "DaemonSet"
	// StatefulSet is scaled to 0.
	StatefulSet WorkloadKind = "StatefulSet"
)

var workloadKinds = []WorkloadKind{CronJob, Job, Deployment, ReplicaSet, DaemonSet, StatefulSet}

// WorkloadKinds returns all kinds in the order in which they are quiesced: first what starts
// others, last what others store their data in. They are unquiesced in the reverse order.
func WorkloadKinds() []WorkloadKind { return slices.Clone(workloadKinds) }

// GroupVersionKind returns the group, version and kind of the objects of a kind.
func (k WorkloadKind) GroupVersionKind() schema.GroupVersionKind {
	if k == CronJob || k == Job {
		return batchv1.SchemeGroupVersion.WithKind(string(k))
	}
	return appsv1.SchemeGroupVersion.WithKind(string(k))
}

// NodeSelectorKey is a label that no node may have. It is added to the node selector of a DaemonSet
// with the value "true", beside the existing entries.
const NodeSelectorKey = "grapnel.dev/quiesced"

// Ref names a workload. Without a Name it stands for all workloads of a kind or of a namespace.
type Ref struct {
	Kind            WorkloadKind
	Namespace, Name string
}

// String returns "Deployment shop/web", "namespace shop" or "every Deployment".
func (r Ref) String() string {
	switch {
	case r.Name != "":
		return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
	case r.Namespace != "":
		return "namespace " + r.Namespace
	case r.Kind != "":
		return "every " + string(r.Kind)
	}
	return "every namespace"
}

// compareRefs orders workloads as they are quiesced, then by namespace and name.
func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(slices.Index(workloadKinds, a.Kind), slices.Index(workloadKinds, b.Kind)),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Rollout is the progress of a change of the pod template.
type Rollout int

const (
	// NoRollout means that all pods have the same template.
	NoRollout Rollout = iota
	// RolloutProgressing means that all pods will have the same template.
	RolloutProgressing
	// RolloutStalled means that pods of two templates remain until a user acts.
	RolloutStalled
)

// Workload is the part of an object that decisions depend on.
type Workload struct {
	Ref
	UID, ResourceVersion string
	Labels, Annotations  map[string]string
	// Owner is the controller in ownerReferences, nil if there is none.
	Owner *metav1.OwnerReference
	// ManagedFields are the last writers of each field; nil if unknown.
	ManagedFields []metav1.ManagedFieldsEntry
	// Deleting is set if the object has a deletionTimestamp.
	Deleting bool
	// Replicas is the desired number of a Deployment, ReplicaSet or StatefulSet.
	Replicas int32
	// Suspend is set for a suspended CronJob or Job.
	Suspend bool
	// NodeSelector is the node selector of the pods of a DaemonSet.
	NodeSelector map[string]string
	// Finished is set if a Job has finished or is about to.
	Finished bool
	// JobController is the controller of a Job if it is not that of Kubernetes.
	JobController string
	// Rollout tells whether pods of two templates run.
	Rollout Rollout
	// DeletesVolumes is set if a StatefulSet deletes the volumes of removed replicas.
	DeletesVolumes bool
}

// IsQuiesced reports whether the workload is set to run nothing.
func (w Workload) IsQuiesced() bool {
	switch w.Kind {
	case CronJob, Job:
		return w.Suspend
	case DaemonSet:
		return w.NodeSelector[NodeSelectorKey] == "true"
	default:
		return w.Replicas == 0
	}
}

// hasDefaultValue reports whether the field that quiescing changes has its default value.
func (w Workload) hasDefaultValue() bool {
	switch w.Kind {
	case CronJob, Job:
		return !w.Suspend
	case DaemonSet:
		return len(w.NodeSelector) == 0
	default:
		return w.Replicas == 1
	}
}

// describeValue describes the current value of the field.
func (w Workload) describeValue() string {
	switch {
	case w.Kind == DaemonSet && w.IsQuiesced():
		return "not to run on any node"
	case w.Kind == DaemonSet:
		return "to run on nodes again"
	case (w.Kind == CronJob || w.Kind == Job) && w.Suspend:
		return "to be suspended"
	case w.Kind == CronJob || w.Kind == Job:
		return "not to be suspended"
	default:
		return fmt.Sprintf("to %d replicas", w.Replicas)
	}
}
