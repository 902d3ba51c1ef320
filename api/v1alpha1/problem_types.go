// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ProblemSeverity reports whether a problem changes the outcome of a run.
// +kubebuilder:validation:Enum=Error;Warning
type ProblemSeverity string

// The severities.
const (
	// ProblemSeverityError makes a run PartiallyFailed.
	ProblemSeverityError ProblemSeverity = "Error"
	// ProblemSeverityWarning does not change the outcome.
	ProblemSeverityWarning ProblemSeverity = "Warning"
)

// Problem is an error or a warning of a run.
type Problem struct {
	// severity is Error or Warning.
	// +required
	Severity ProblemSeverity `json:"severity,omitempty"`

	// reason is one of the documented reasons, or that of the API server for rejecting a
	// request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// resource is what kind of object it is about, for example deployments.apps. It is unset
	// for a problem of the run as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`

	// namespace is the namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object. It is unset for a problem of a kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// message is the text for users. A long one is cut off, the shorter the more problems
	// there are; the results file has all of it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Message string `json:"message,omitempty"`
}
