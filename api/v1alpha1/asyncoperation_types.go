// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperationItem names the object that an operation works on, or an object that is
// archived after the operation has ended.
type OperationItem struct {
	// group is the API group; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version is the API version in which the object is archived. It is empty where the
	// version does not matter.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// resource is the plural name, for example persistentvolumeclaims.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Resource string `json:"resource,omitempty"`

	// namespace of the object; empty for a cluster-scoped object. For a Restore it is the
	// namespace that the object is restored into.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// AsyncOperationSpec is what an action started. Only desiredState and cancelReason may
// change.
//
// +kubebuilder:validation:XValidation:rule="self.parentRef == oldSelf.parentRef && self.kind == oldSelf.kind && self.actionName == oldSelf.actionName && self.pluginRef == oldSelf.pluginRef && self.operationID == oldSelf.operationID && self.item == oldSelf.item && self.attempt == oldSelf.attempt && self.timeout == oldSelf.timeout && self.pollInterval == oldSelf.pollInterval",message="only desiredState can be changed"
// +kubebuilder:validation:XValidation:rule="has(self.stallTimeout) == has(oldSelf.stallTimeout) && (!has(self.stallTimeout) || self.stallTimeout == oldSelf.stallTimeout) && has(self.postOperationItems) == has(oldSelf.postOperationItems) && (!has(self.postOperationItems) || self.postOperationItems == oldSelf.postOperationItems)",message="only desiredState can be changed"
type AsyncOperationSpec struct {
	// parentRef is the Backup or Restore that the operation belongs to.
	// +required
	ParentRef ParentReference `json:"parentRef,omitzero"`

	// kind is the kind of the action that started the operation.
	// +required
	Kind ActionKind `json:"kind,omitempty"`

	// actionName is the registered name of the action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ActionName string `json:"actionName,omitempty"`

	// pluginRef is the Plugin that provides the action.
	// +required
	PluginRef PluginReference `json:"pluginRef,omitzero"`

	// operationID is the ID that the action gave the operation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	OperationID string `json:"operationID,omitempty"`

	// item is the object that the operation works on.
	// +required
	Item OperationItem `json:"item,omitzero"`

	// postOperationItems are archived, if necessary again, after the operation has ended.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	PostOperationItems []OperationItem `json:"postOperationItems,omitempty"`

	// attempt is the attempt of the parent that started the operation. If the operator
	// was interrupted and the action received the objects again, the earlier operation is
	// canceled and does not count.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// timeout is how long the operation may take, measured from the creation of this
	// object. When it expires, the operation is canceled and has failed.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// stallTimeout is how long the completed units may stay the same while the plugin
	// answers. When it expires, the operation is canceled and has failed. Unset means no
	// limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	StallTimeout *metav1.Duration `json:"stallTimeout,omitempty"`

	// pollInterval is the time between two polls of the operation's progress. The operator
	// polls more often at the beginning.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms')",message="must be at least 100ms"
	PollInterval metav1.Duration `json:"pollInterval,omitempty"`

	// desiredState is Run, or Cancel to make the plugin stop the operation. Cancel cannot
	// be reverted.
	// +optional
	// +default="Run"
	// +kubebuilder:validation:XValidation:rule="oldSelf == self || oldSelf == 'Run'",message="Cancel cannot be reverted"
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// cancelReason is a short text that says why the operation is canceled. The Backup or
	// Restore sets it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CancelReason string `json:"cancelReason,omitempty"`
}

// AsyncOperationPhase summarizes the conditions of an AsyncOperation in one word.
// +kubebuilder:validation:Enum=New;InProgress;Cancelling;Completed;Failed;Cancelled
type AsyncOperationPhase string

// The phases of an AsyncOperation. Completed, Failed, and Cancelled are terminal.
const (
	// AsyncOperationPhaseNew means that the plugin has not reported anything yet.
	AsyncOperationPhaseNew AsyncOperationPhase = "New"
	// AsyncOperationPhaseInProgress means that the plugin reports progress.
	AsyncOperationPhaseInProgress AsyncOperationPhase = "InProgress"
	// AsyncOperationPhaseCancelling means that the operation is being canceled, and the
	// plugin has not reported its end.
	AsyncOperationPhaseCancelling AsyncOperationPhase = "Cancelling"
	// AsyncOperationPhaseCompleted means that the operation succeeded.
	AsyncOperationPhaseCompleted AsyncOperationPhase = "Completed"
	// AsyncOperationPhaseFailed means that the operation ended with an error, that it
	// timed out, or that its outcome is unknown.
	AsyncOperationPhaseFailed AsyncOperationPhase = "Failed"
	// AsyncOperationPhaseCancelled means that the operation ended on request.
	AsyncOperationPhaseCancelled AsyncOperationPhase = "Cancelled"
)

// AsyncOperationProgress is the progress that the plugin last reported.
type AsyncOperationProgress struct {
	// completed is how many units are done.
	// +optional
	Completed int64 `json:"completed"`

	// total is how many units there are; 0 if that is unknown.
	// +optional
	Total int64 `json:"total"`

	// units is the unit that is counted, for example bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Units string `json:"units,omitempty"`

	// description is a sentence from the plugin.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// warning is what the plugin says that users should know of a completed operation.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Warning string `json:"warning,omitempty"`

	// summary is the progress as a short text for people.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Summary string `json:"summary,omitempty"`
}

// CancelCause says why an operation is canceled.
// +kubebuilder:validation:Enum=Requested;TimedOut;Stalled
type CancelCause string

// The causes.
const (
	// CancelCauseRequested means that a user or the parent requested it.
	CancelCauseRequested CancelCause = "Requested"
	// CancelCauseTimedOut means that spec.timeout expired.
	CancelCauseTimedOut CancelCause = "TimedOut"
	// CancelCauseStalled means that spec.stallTimeout expired.
	CancelCauseStalled CancelCause = "Stalled"
)

// CancelAnswer is the plugin's answer to the request to cancel.
// +kubebuilder:validation:Enum=Acknowledged;Refused
type CancelAnswer string

// The answers.
const (
	// CancelAnswerAcknowledged means that the plugin will stop the operation.
	CancelAnswerAcknowledged CancelAnswer = "Acknowledged"
	// CancelAnswerRefused means that the plugin answered with an error.
	CancelAnswerRefused CancelAnswer = "Refused"
)

// AsyncOperationCancel describes the request to cancel an operation.
type AsyncOperationCancel struct {
	// cause is why the operation is canceled.
	// +required
	Cause CancelCause `json:"cause,omitempty"`

	// requestTimestamp is when the operator decided to cancel it.
	// +required
	RequestTimestamp metav1.Time `json:"requestTimestamp,omitempty"`

	// deadline is when the operation counts as failed if its end has not been confirmed.
	// +required
	Deadline metav1.Time `json:"deadline,omitempty"`

	// answer is the answer of the plugin; empty until it answers.
	// +optional
	Answer CancelAnswer `json:"answer,omitempty"`

	// message is the error with which the plugin refused, or why calling it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AsyncOperationStatus is the observed state of an operation. A change of the progress
// alone is recorded only after a change of 5 % or after half a minute.
type AsyncOperationStatus struct {
	// conditions are authoritative; see the package comment.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about; -1 until the operator
	// has reconciled the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase summarizes the conditions.
	// +optional
	Phase AsyncOperationPhase `json:"phase,omitempty"`

	// message says in one sentence what happens or how the operation ended.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// progress is what the plugin reported.
	// +optional
	Progress *AsyncOperationProgress `json:"progress,omitempty"`

	// startTimestamp is when the operation began, as reported by the plugin.
	// +optional
	// +nullable
	StartTimestamp *MicroTime `json:"startTimestamp,omitempty"`

	// dataCapturedTimestamp is when the operator learned that the operation has captured its
	// data: the data no longer changes with the application, although the operation may still
	// move it. It is unset for an operation that ended before that.
	// +optional
	// +nullable
	DataCapturedTimestamp *MicroTime `json:"dataCapturedTimestamp,omitempty"`

	// updateTimestamp is when the progress last changed, as reported by the plugin.
	// +optional
	// +nullable
	UpdateTimestamp *metav1.Time `json:"updateTimestamp,omitempty"`

	// lastPollTimestamp is when the plugin was last polled before this status was written.
	// +optional
	// +nullable
	LastPollTimestamp *metav1.Time `json:"lastPollTimestamp,omitempty"`

	// lastProgressTimestamp is when the completed units were last observed to grow.
	// +optional
	// +nullable
	LastProgressTimestamp *metav1.Time `json:"lastProgressTimestamp,omitempty"`

	// deadline is when spec.timeout expires.
	// +optional
	// +nullable
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// completionTimestamp is when the outcome of the operation became known.
	// +optional
	// +nullable
	CompletionTimestamp *MicroTime `json:"completionTimestamp,omitempty"`

	// duration is the time from the creation of this object to the end of the operation,
	// for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`

	// transientErrors is how many polls failed or were not answered. The operation
	// continues.
	// +optional
	TransientErrors int32 `json:"transientErrors,omitempty"`

	// cancel describes the request to cancel, if there is one.
	// +optional
	Cancel *AsyncOperationCancel `json:"cancel,omitempty"`
}

// AsyncOperation is one operation that an action of a plugin started on one object and
// that continues on its own. Only the operator creates AsyncOperations; users may set
// spec.desiredState to Cancel.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gao
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.actionName`
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.pluginRef.name`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.item.resource`
// +kubebuilder:printcolumn:name="In",type=string,JSONPath=`.spec.item.namespace`
// +kubebuilder:printcolumn:name="Item",type=string,JSONPath=`.spec.item.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.summary`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Captured",type=date,priority=1,JSONPath=`.status.dataCapturedTimestamp`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.spec.operationID`
type AsyncOperation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what was started.
	// +required
	Spec AsyncOperationSpec `json:"spec,omitzero"`

	// status is the observed state of the operation.
	// +optional
	// +default={"observedGeneration":-1}
	Status AsyncOperationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the AsyncOperation.
func (o *AsyncOperation) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the AsyncOperation.
func (o *AsyncOperation) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the AsyncOperation.
func (o *AsyncOperation) ObservedGeneration() *int64 { return &o.Status.ObservedGeneration }

// Ended reports whether the outcome of the operation is known.
func (o *AsyncOperation) Ended() bool { return o.Status.CompletionTimestamp != nil }

// AsyncOperationList is a list of AsyncOperations.
//
// +kubebuilder:object:root=true
type AsyncOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AsyncOperation `json:"items"`
}
