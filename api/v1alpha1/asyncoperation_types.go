// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperationItem names the object that an operation works on, or one that is archived
// when it has ended.
type OperationItem struct {
	// group is the API group; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version is the one in which the object is archived; empty where it does not
	// matter.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// resource is the plural name, for example persistentvolumeclaims.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Resource string `json:"resource"`

	// namespace of the object; empty for a cluster-scoped one. Of a Restore it is
	// the one that the object is restored into.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AsyncOperationSpec is what an action started. Only desiredState and cancelReason may
// change.
//
// +kubebuilder:validation:XValidation:rule="self.subject == oldSelf.subject && self.kind == oldSelf.kind && self.pluginName == oldSelf.pluginName && self.pluginRef == oldSelf.pluginRef && self.operationID == oldSelf.operationID && self.item == oldSelf.item && self.attempt == oldSelf.attempt && self.timeout == oldSelf.timeout && self.pollInterval == oldSelf.pollInterval",message="only desiredState can be changed"
// +kubebuilder:validation:XValidation:rule="has(self.stallTimeout) == has(oldSelf.stallTimeout) && (!has(self.stallTimeout) || self.stallTimeout == oldSelf.stallTimeout) && has(self.postOperationItems) == has(oldSelf.postOperationItems) && (!has(self.postOperationItems) || self.postOperationItems == oldSelf.postOperationItems)",message="only desiredState can be changed"
type AsyncOperationSpec struct {
	// subject is the Backup or Restore that the operation belongs to.
	// +required
	Subject SubjectReference `json:"subject"`

	// kind is the kind of the action that started it.
	// +required
	Kind ActionKind `json:"kind"`

	// pluginName is the registered name of that action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PluginName string `json:"pluginName"`

	// pluginRef is the Plugin that provides the action.
	// +required
	PluginRef PluginReference `json:"pluginRef"`

	// operationID is what the action calls the operation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	OperationID string `json:"operationID"`

	// item is the object that the operation works on.
	// +required
	Item OperationItem `json:"item"`

	// postOperationItems are archived, again if need be, when the operation has ended.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	PostOperationItems []OperationItem `json:"postOperationItems,omitempty"`

	// attempt is the attempt of the subject that started it. If the operator went away
	// and the objects were shown to the action again, the earlier operation is
	// cancelled and does not count.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`

	// timeout is how long the operation may take, from the creation of this object. It
	// is cancelled then, and has failed.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	Timeout metav1.Duration `json:"timeout"`

	// stallTimeout is how long the completed units may stay the same while the plugin
	// answers. The operation is cancelled then, and has failed. Unset means for ever.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	StallTimeout *metav1.Duration `json:"stallTimeout,omitempty"`

	// pollInterval is the time between two questions how far the operation is. It is
	// asked more often at its beginning.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms')",message="must be at least 100ms"
	PollInterval metav1.Duration `json:"pollInterval"`

	// desiredState is Run. Cancel asks the plugin to end the operation, and can not be
	// taken back.
	// +optional
	// +default="Run"
	// +kubebuilder:validation:XValidation:rule="oldSelf == self || oldSelf == 'Run'",message="Cancel can not be taken back"
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// cancelReason says in a few words why it is cancelled. Its Backup or Restore writes it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CancelReason string `json:"cancelReason,omitempty"`
}

// AsyncOperationPhase summarises the conditions of an AsyncOperation in one word.
// +kubebuilder:validation:Enum=New;InProgress;Cancelling;Completed;Failed;Cancelled
type AsyncOperationPhase string

// The phases of an AsyncOperation. Completed, Failed and Cancelled are terminal.
const (
	// AsyncOperationPhaseNew means that the plugin has not told anything yet.
	AsyncOperationPhaseNew AsyncOperationPhase = "New"
	// AsyncOperationPhaseInProgress means that the plugin tells its progress.
	AsyncOperationPhaseInProgress AsyncOperationPhase = "InProgress"
	// AsyncOperationPhaseCancelling means that the plugin is asked to end it, and has
	// not told that it ended.
	AsyncOperationPhaseCancelling AsyncOperationPhase = "Cancelling"
	// AsyncOperationPhaseCompleted means that it ended well.
	AsyncOperationPhaseCompleted AsyncOperationPhase = "Completed"
	// AsyncOperationPhaseFailed means that it ended with an error, that it took too
	// long, or that it is not known how it ended.
	AsyncOperationPhaseFailed AsyncOperationPhase = "Failed"
	// AsyncOperationPhaseCancelled means that it ended because somebody wanted that.
	AsyncOperationPhaseCancelled AsyncOperationPhase = "Cancelled"
)

// AsyncOperationProgress is what the plugin told last.
type AsyncOperationProgress struct {
	// completed is how many units are done.
	// +optional
	Completed int64 `json:"completed"`

	// total is how many units there are; 0 if that is not known.
	// +optional
	Total int64 `json:"total"`

	// units is what is counted, for example bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Units string `json:"units,omitempty"`

	// description is a sentence of the plugin.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// summary is the numbers in a few words, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Summary string `json:"summary,omitempty"`
}

// CancelCause says why an operation is cancelled.
// +kubebuilder:validation:Enum=Requested;TimedOut;Stalled
type CancelCause string

// The causes.
const (
	// CancelCauseRequested means that somebody asked for it.
	CancelCauseRequested CancelCause = "Requested"
	// CancelCauseTimedOut means that spec.timeout was over.
	CancelCauseTimedOut CancelCause = "TimedOut"
	// CancelCauseStalled means that spec.stallTimeout was over.
	CancelCauseStalled CancelCause = "Stalled"
)

// CancelAnswer is what the plugin said to that.
// +kubebuilder:validation:Enum=Acknowledged;Refused
type CancelAnswer string

// The answers.
const (
	// CancelAnswerAcknowledged means that the plugin will end the operation.
	CancelAnswerAcknowledged CancelAnswer = "Acknowledged"
	// CancelAnswerRefused means that it answered with an error.
	CancelAnswerRefused CancelAnswer = "Refused"
)

// AsyncOperationCancel tells how the end of an operation was asked for.
type AsyncOperationCancel struct {
	// cause says why.
	// +required
	Cause CancelCause `json:"cause"`

	// requestTimestamp is when that was decided.
	// +required
	RequestTimestamp metav1.Time `json:"requestTimestamp"`

	// deadline is when the operation counts as failed if its end was not confirmed.
	// +required
	Deadline metav1.Time `json:"deadline"`

	// answer is what the plugin said; empty as long as it did not answer.
	// +optional
	Answer CancelAnswer `json:"answer,omitempty"`

	// message is the error with which the plugin refused, or why it could not be asked.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AsyncOperationStatus tells how an operation stands. Progress alone is written down
// when it changed by 5 % or after half a minute.
type AsyncOperationStatus struct {
	// conditions carry the truth; see the package comment.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase summarises the conditions.
	// +optional
	Phase AsyncOperationPhase `json:"phase,omitempty"`

	// message says in one sentence what happens or how it ended.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// progress is what the plugin told.
	// +optional
	Progress *AsyncOperationProgress `json:"progress,omitempty"`

	// startTimestamp is when the operation began, as the plugin says.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// updateTimestamp is when its progress last changed, as the plugin says.
	// +optional
	// +nullable
	UpdateTimestamp *metav1.Time `json:"updateTimestamp,omitempty"`

	// lastPollTimestamp is when the plugin was last asked before this was written.
	// +optional
	// +nullable
	LastPollTimestamp *metav1.Time `json:"lastPollTimestamp,omitempty"`

	// lastProgressTimestamp is when more was seen to be done than before.
	// +optional
	// +nullable
	LastProgressTimestamp *metav1.Time `json:"lastProgressTimestamp,omitempty"`

	// deadline is when spec.timeout is over.
	// +optional
	// +nullable
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// completionTimestamp is when it was known how the operation ended.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// duration is the time from the creation of this object to the end, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`

	// transientErrors is how often a question was not answered, or with an error. The
	// operation goes on.
	// +optional
	TransientErrors int32 `json:"transientErrors,omitempty"`

	// cancel tells how the end was asked for, if it was.
	// +optional
	Cancel *AsyncOperationCancel `json:"cancel,omitempty"`
}

// AsyncOperation is one operation that an action of a plugin started on one object and
// that goes on by itself. Only the operator creates AsyncOperations; people may set
// spec.desiredState to Cancel.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gao
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.pluginName`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.item.resource`
// +kubebuilder:printcolumn:name="In",type=string,JSONPath=`.spec.item.namespace`
// +kubebuilder:printcolumn:name="Item",type=string,JSONPath=`.spec.item.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.summary`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.subject.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.spec.operationID`
type AsyncOperation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was started.
	// +required
	Spec AsyncOperationSpec `json:"spec"`

	// status tells how it stands.
	// +optional
	Status AsyncOperationStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the AsyncOperation.
func (o *AsyncOperation) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions of the AsyncOperation.
func (o *AsyncOperation) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// Ended says whether it is known how the operation ended.
func (o *AsyncOperation) Ended() bool { return o.Status.CompletionTimestamp != nil }

// AsyncOperationList is a list of AsyncOperations.
//
// +kubebuilder:object:root=true
type AsyncOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AsyncOperation `json:"items"`
}
