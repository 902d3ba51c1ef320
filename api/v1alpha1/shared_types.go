// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DesiredState is the switch with which a person stops a run.
// +kubebuilder:validation:Enum=Run;Cancel
type DesiredState string

// The desired states of a Backup. Cancel is one-way.
const (
	DesiredStateRun    DesiredState = "Run"
	DesiredStateCancel DesiredState = "Cancel"
)

// FailurePolicy determines what an unreachable plugin or a timeout does to the run. An
// explicit failure or a misconfiguration is never ignored.
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

// The failure policies.
const (
	FailurePolicyFail   FailurePolicy = "Fail"
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// InterruptionPolicy determines what happens to an attempt that was running when the
// operator stopped.
// +kubebuilder:validation:Enum=Retry;Fail
type InterruptionPolicy string

// The interruption policies. Owed clean-up is always retried.
const (
	InterruptionPolicyRetry InterruptionPolicy = "Retry"
	InterruptionPolicyFail  InterruptionPolicy = "Fail"
)

// HookPoint is a point in a Backup, Restore or DeletionRun at which actions run once.
// +kubebuilder:validation:Enum=PreBackup;PostBackup;PreRestore;PostRestore;Delete
type HookPoint string

// The points at which hooks run.
const (
	HookPreBackup   HookPoint = "PreBackup"
	HookPostBackup  HookPoint = "PostBackup"
	HookPreRestore  HookPoint = "PreRestore"
	HookPostRestore HookPoint = "PostRestore"
	// HookDelete is the only point of a DeletionRun.
	HookDelete HookPoint = "Delete"
)

// ActionPhase is the state of one action of a Backup, Restore or DeletionRun. It is
// empty while the action is planned and has not started.
// +kubebuilder:validation:Enum=InProgress;Completed;Failed
type ActionPhase string

// The phases of an action.
const (
	// ActionPhaseInProgress means the action is being executed.
	ActionPhaseInProgress ActionPhase = "InProgress"
	// ActionPhaseCompleted means the action finished successfully, or its
	// failure was ignored by policy (the message then says so).
	ActionPhaseCompleted ActionPhase = "Completed"
	// ActionPhaseFailed means the action failed and the run did not continue.
	ActionPhaseFailed ActionPhase = "Failed"
)

// ActionStatus is the state of one planned action of a Backup, Restore or DeletionRun.
// The list that contains it is in the order in which the actions run.
type ActionStatus struct {
	// pluginName is the registered name of the action.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PluginName string `json:"pluginName,omitempty"`

	// plugin is the name of the Plugin that provides the action. It is used to recreate
	// the HookRun if a user deletes it without its finalizer.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`

	// startTimestamp is when the action was first called.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// completionTimestamp is when the action ended.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// phase is empty until the action starts.
	// +optional
	Phase ActionPhase `json:"phase,omitempty"`

	// message says in one sentence what happened.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// hookRunName is the HookRun that executes the action.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HookRunName string `json:"hookRunName,omitempty"`
}

// ParameterSet holds the parameters of one action: keys and values.
// +kubebuilder:validation:MaxProperties=64
type ParameterSet map[string]ParameterValue

// ParameterValue is one value passed to a plugin. It is data, never executed.
// +kubebuilder:validation:MaxLength=4096
type ParameterValue string

// NamePattern is one namespace or resource name, or a glob.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type NamePattern string
