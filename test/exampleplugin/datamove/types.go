// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package datamove

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource and Group are how objects name the kind.
const (
	Group    = "example.io"
	Resource = "datamoves"
)

// The values of Status.Phase. A DataMove that the mover has not started has none. The last
// three are final.
const (
	Running   = "Running"
	Completed = "Completed"
	Failed    = "Failed"
	Cancelled = "Cancelled"
)

// DataMove requests moving the files of a claim in its namespace.
type DataMove struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is the desired state.
type Spec struct {
	// Claim is the name of the PersistentVolumeClaim.
	Claim string `json:"claim"`
	// Operation identifies the requesting operation. When it changes, the move restarts.
	Operation string `json:"operation"`
	// Cancel requests the cancellation of the move.
	Cancel bool `json:"cancel,omitempty"`
}

// Status is the progress of the move.
type Status struct {
	// Operation is the operation that the other fields belong to.
	Operation string `json:"operation,omitempty"`
	Phase     string `json:"phase,omitempty"`
	// Files of Total files are moved.
	Files int64 `json:"files"`
	Total int64 `json:"total"`
	// Message is a sentence for humans.
	Message string `json:"message,omitempty"`
}

// IsFinished reports whether the operation of the spec is finished.
func (m *DataMove) IsFinished() bool {
	switch m.Status.Phase {
	case Completed, Failed, Cancelled:
		return m.Status.Operation == m.Spec.Operation
	default:
		return false
	}
}

// DeepCopyObject returns a copy.
func (m *DataMove) DeepCopyObject() runtime.Object {
	out := *m
	m.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DataMoveList is a list of DataMoves.
type DataMoveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []DataMove `json:"items"`
}

// DeepCopyObject returns a copy.
func (l *DataMoveList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]DataMove, len(l.Items))
	for i := range l.Items {
		out.Items[i] = l.Items[i]
		l.Items[i].DeepCopyInto(&out.Items[i].ObjectMeta)
	}
	return &out
}

// NewScheme returns the scheme for a client.
func NewScheme() *runtime.Scheme {
	scheme, version := runtime.NewScheme(), schema.GroupVersion{Group: Group, Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("DataMove"), &DataMove{})
	scheme.AddKnownTypeWithName(version.WithKind("DataMoveList"), &DataMoveList{})
	metav1.AddToGroupVersion(scheme, version)
	return scheme
}
