// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadKind is a kind of workload.
type WorkloadKind string

// The kinds that can be quiesced.
const (
	// CronJob is suspended; Jobs that it started go on, unless they are quiesced, too.
	CronJob WorkloadKind = "CronJob"
	// Job is suspended, which ends its pods; what they did is done again later.
	Job WorkloadKind = "Job"
	// Deployment is scaled to 0.
	Deployment WorkloadKind = "Deployment"
	// ReplicaSet is scaled to 0 if nobody owns it.
	ReplicaSet WorkloadKind = "ReplicaSet"
	// DaemonSet gets a node selector that no node has.
	DaemonSet WorkloadKind = "DaemonSet"
	// StatefulSet is scaled to 0.
	StatefulSet WorkloadKind = "StatefulSet"
)

// WorkloadKinds returns all kinds in the order in which they are quiesced: what starts others first,
// what others store their data in last. They are given back in the reverse order.
func WorkloadKinds() []WorkloadKind {
	return []WorkloadKind{CronJob, Job, Deployment, ReplicaSet, DaemonSet, StatefulSet}
}

// NodeSelectorKey is the label that no node must have. It is added to the node selector of a
// DaemonSet, with the value "true"; what the selector had before stays beside it.
const NodeSelectorKey = "grapnel.dev/quiesced"

// Ref names a workload. Without a Name it is all workloads of a kind, or of a namespace.
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

// Rollout says how far a change of the template is.
type Rollout int

const (
	// NoRollout means: all pods are of one template.
	NoRollout Rollout = iota
	// RolloutProgressing means: they will be.
	RolloutProgressing
	// RolloutStalled means: they stay as they are until somebody does something about it.
	RolloutStalled
)

// Workload is what decisions need to know of an object.
type Workload struct {
	Ref
	UID, ResourceVersion string
	Labels, Annotations  map[string]string
	// Owner is the owner that controls it, nil if there is none.
	Owner *metav1.OwnerReference
	// ManagedFields say who wrote which field last; nil if that is not known.
	ManagedFields []metav1.ManagedFieldsEntry
	// Deleting says that it is being deleted.
	Deleting bool
	// Replicas is what a Deployment, ReplicaSet or StatefulSet is scaled to.
	Replicas int32
	// Suspend is set for a CronJob or Job that is suspended.
	Suspend bool
	// NodeSelector is the one of the pods of a DaemonSet.
	NodeSelector map[string]string
	// Finished says that a Job has ended or is about to.
	Finished bool
	// JobController is who runs a Job if it is not Kubernetes.
	JobController string
	// Rollout says whether its pods are of two templates.
	Rollout Rollout
	// DeletesVolumes says that a StatefulSet deletes the volumes of replicas that go.
	DeletesVolumes bool
}

// IsQuiesced says whether nothing of the workload is to run.
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

// hasDefaultValue says whether the field that quiescing changes has the value that it has if nobody ever
// set it.
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

// describeValue returns what the workload is set to, in words.
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

// quiesceFieldPath returns the field that quiescing changes.
func (k WorkloadKind) quiesceFieldPath() []string {
	switch k {
	case CronJob, Job:
		return []string{"spec", "suspend"}
	case DaemonSet:
		return []string{"spec", "template", "spec", "nodeSelector"}
	default:
		return []string{"spec", "replicas"}
	}
}
