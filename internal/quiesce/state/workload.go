// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is a kind of workload.
type Kind string

// The kinds that can be quiesced.
const (
	// CronJob is suspended; Jobs that it started go on, unless they are quiesced, too.
	CronJob Kind = "CronJob"
	// Job is suspended, which ends its pods; what they did is done again later.
	Job Kind = "Job"
	// Deployment is scaled to 0.
	Deployment Kind = "Deployment"
	// ReplicaSet is scaled to 0 if nobody owns it.
	ReplicaSet Kind = "ReplicaSet"
	// DaemonSet gets a node selector that no node has.
	DaemonSet Kind = "DaemonSet"
	// StatefulSet is scaled to 0.
	StatefulSet Kind = "StatefulSet"
)

// Kinds returns all kinds in the order in which they are quiesced: what starts others first,
// what others store their data in last. They are given back in the reverse order.
func Kinds() []Kind {
	return []Kind{CronJob, Job, Deployment, ReplicaSet, DaemonSet, StatefulSet}
}

// ParkKey is the label that no node must have. It is added to the node selector of a
// DaemonSet, with the value "true"; what the selector had before stays beside it.
const ParkKey = "grapnel.dev/quiesced"

// Ref names a workload. Without a Name it is all workloads of a kind, or of a namespace.
type Ref struct {
	Kind            Kind
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
	// RolloutGoesOn means: they will be.
	RolloutGoesOn
	// RolloutHalts means: they stay as they are until somebody does something about it.
	RolloutHalts
)

// Workload is what decisions need to know of an object.
type Workload struct {
	Ref
	UID, ResourceVersion string
	Labels, Annotations  map[string]string
	// Owner is the owner that controls it, nil if there is none.
	Owner *metav1.OwnerReference
	// Fields say who wrote which field last; nil if that is not known.
	Fields []metav1.ManagedFieldsEntry
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

// Quiesced says whether nothing of the workload is to run.
func (w Workload) Quiesced() bool {
	switch w.Kind {
	case CronJob, Job:
		return w.Suspend
	case DaemonSet:
		return w.NodeSelector[ParkKey] == "true"
	default:
		return w.Replicas == 0
	}
}

// unset says whether the field that quiescing changes has the value that it has if nobody ever
// set it.
func (w Workload) unset() bool {
	switch w.Kind {
	case CronJob, Job:
		return !w.Suspend
	case DaemonSet:
		return len(w.NodeSelector) == 0
	default:
		return w.Replicas == 1
	}
}

// value returns what the workload is set to, in words.
func (w Workload) value() string {
	switch {
	case w.Kind == DaemonSet && w.Quiesced():
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

// path returns the field that quiescing changes.
func (k Kind) path() []string {
	switch k {
	case CronJob, Job:
		return []string{"spec", "suspend"}
	case DaemonSet:
		return []string{"spec", "template", "spec", "nodeSelector"}
	default:
		return []string{"spec", "replicas"}
	}
}
