// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HookDesiredState is the switch with which the operator starts a planned HookRun and
// a person stops one.
// +kubebuilder:validation:Enum=Wait;Run;Cancel
type HookDesiredState string

// The desired states of a HookRun, in the only permitted order.
const (
	HookDesiredStateWait   HookDesiredState = "Wait"
	HookDesiredStateRun    HookDesiredState = "Run"
	HookDesiredStateCancel HookDesiredState = "Cancel"
)

// HookRunSpec is one planned execution of one action, as it was resolved when the plan
// was made. Only desiredState and intervention may change.
//
// +kubebuilder:validation:XValidation:rule="self.hook == oldSelf.hook && self.actionName == oldSelf.actionName && self.pluginRef == oldSelf.pluginRef && self.parentRef == oldSelf.parentRef && self.timeout == oldSelf.timeout && self.failurePolicy == oldSelf.failurePolicy && self.onInterruption == oldSelf.onInterruption",message="only desiredState and intervention can be changed"
// +kubebuilder:validation:XValidation:rule="has(self.order) == has(oldSelf.order) && (!has(self.order) || self.order == oldSelf.order) && has(self.retries) == has(oldSelf.retries) && (!has(self.retries) || self.retries == oldSelf.retries) && has(self.owed) == has(oldSelf.owed) && (!has(self.owed) || self.owed == oldSelf.owed)",message="only desiredState and intervention can be changed"
// +kubebuilder:validation:XValidation:rule="has(self.runOn) == has(oldSelf.runOn) && (!has(self.runOn) || self.runOn == oldSelf.runOn) && has(self.runAfter) == has(oldSelf.runAfter) && (!has(self.runAfter) || self.runAfter == oldSelf.runAfter) && has(self.parameters) == has(oldSelf.parameters) && (!has(self.parameters) || self.parameters == oldSelf.parameters)",message="only desiredState and intervention can be changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.intervention) || (has(self.intervention) && (self.intervention == oldSelf.intervention || self.intervention.id != oldSelf.intervention.id))",message="intervention cannot be removed, and a new one needs a new id"
type HookRunSpec struct {
	// hook is the point at which the action runs.
	// +required
	Hook HookPoint `json:"hook,omitempty"`

	// actionName is the registered name of the action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ActionName string `json:"actionName,omitempty"`

	// pluginRef is the Plugin that provides the action.
	// +required
	PluginRef PluginReference `json:"pluginRef,omitzero"`

	// parentRef is the Backup, Restore or DeletionRun that the action runs for.
	// +required
	ParentRef ParentReference `json:"parentRef,omitzero"`

	// order is the planned position of the action.
	// +optional
	Order int32 `json:"order,omitempty"`

	// timeout is how long one attempt may take.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// retries is how often a failed attempt is retried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries int32 `json:"retries,omitempty"`

	// failurePolicy determines what an unreachable plugin or a timeout does to the run.
	// +required
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// onInterruption determines what happens if the operator stops during an attempt.
	// +required
	OnInterruption InterruptionPolicy `json:"onInterruption,omitempty"`

	// owed marks clean-up for an action that ran before: it is retried until it succeeds,
	// regardless of retries.
	// +optional
	Owed bool `json:"owed,omitempty"`

	// runOn lists the outcomes after which the action runs; not for owed clean-up.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RunOn []Outcome `json:"runOn,omitempty"`

	// runAfter is when a PostBackup action runs. Unset means BackupCompleted.
	// +optional
	RunAfter RunAfter `json:"runAfter,omitempty"`

	// parameters are passed to the action.
	// +optional
	Parameters ParameterSet `json:"parameters,omitempty"`

	// desiredState is Wait until it is the action's turn, then Run. Cancel stops the
	// action; owed clean-up cannot be canceled this way.
	// +required
	// +kubebuilder:validation:XValidation:rule="oldSelf == self || oldSelf == 'Wait' || (oldSelf == 'Run' && self == 'Cancel')",message="goes from Wait to Run to Cancel and never back"
	DesiredState HookDesiredState `json:"desiredState,omitempty"`

	// intervention is the last request of a user to retry or skip this action. The operator
	// handles each of them once and records it in status.lastIntervention.
	// +optional
	Intervention *HookIntervention `json:"intervention,omitempty"`
}

// HookInterventionType is what a user requests for one action.
// +kubebuilder:validation:Enum=Retry;Skip
type HookInterventionType string

// The types of interventions.
const (
	// HookInterventionRetry begins the next attempt now.
	HookInterventionRetry HookInterventionType = "Retry"
	// HookInterventionSkip ends the action, and the run continues without it. Owed clean-up is
	// abandoned.
	HookInterventionSkip HookInterventionType = "Skip"
)

// HookIntervention is the request of a user to retry or skip one action.
type HookIntervention struct {
	// id distinguishes this request from earlier ones; any unique string.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	ID string `json:"id,omitempty"`

	// type is Retry or Skip.
	// +required
	Type HookInterventionType `json:"type,omitempty"`

	// user is the name of the user who sends the request. A policy rejects other names.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	User string `json:"user,omitempty"`

	// reason says why. It is shown to everyone who can read the HookRun or its parent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// PluginReference names a Plugin.
type PluginReference struct {
	// name of the Plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ParentReference names the Backup, Restore or DeletionRun in the same namespace that
// an action runs for.
type ParentReference struct {
	// kind is Backup, Restore or DeletionRun.
	// +required
	// +kubebuilder:validation:Enum=Backup;Restore;DeletionRun
	Kind string `json:"kind,omitempty"`

	// name of the parent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid of the parent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// HookRunPhase summarizes the conditions of a HookRun in one word.
// +kubebuilder:validation:Enum=Pending;InProgress;Completed;Failed;Cancelled;Skipped
type HookRunPhase string

// The phases of a HookRun. Completed, Failed, Cancelled and Skipped are
// terminal.
const (
	// HookRunPhasePending means it is not the action's turn yet.
	HookRunPhasePending HookRunPhase = "Pending"
	// HookRunPhaseInProgress means the action was called and has not finished.
	HookRunPhaseInProgress HookRunPhase = "InProgress"
	// HookRunPhaseCompleted means the action succeeded, or its failure was ignored by
	// policy.
	HookRunPhaseCompleted HookRunPhase = "Completed"
	// HookRunPhaseFailed means the last attempt failed.
	HookRunPhaseFailed HookRunPhase = "Failed"
	// HookRunPhaseCancelled means it was stopped while it was running.
	HookRunPhaseCancelled HookRunPhase = "Cancelled"
	// HookRunPhaseSkipped means it was planned but did not have to run, or a user skipped it.
	HookRunPhaseSkipped HookRunPhase = "Skipped"
)

// HookAttempt is one attempt at an action.
type HookAttempt struct {
	// number counts from 1 and is passed to the action.
	// +required
	Number int32 `json:"number,omitempty"`

	// startTimestamp is when the attempt was recorded, right before its call.
	// +required
	StartTimestamp MicroTime `json:"startTimestamp,omitempty,omitzero"`

	// completionTimestamp is when the attempt ended.
	// +optional
	// +nullable
	CompletionTimestamp *MicroTime `json:"completionTimestamp,omitempty"`

	// deadline is when the attempt times out.
	// +required
	Deadline metav1.Time `json:"deadline,omitempty"`

	// reason says how the attempt failed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says in one sentence how the attempt failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HookInterventionOutcome is what became of an intervention.
// +kubebuilder:validation:Enum=Accepted;Refused
type HookInterventionOutcome string

// The outcomes of an intervention.
const (
	HookInterventionAccepted HookInterventionOutcome = "Accepted"
	HookInterventionRefused  HookInterventionOutcome = "Refused"
)

// HandledHookIntervention is an intervention that the operator has handled.
type HandledHookIntervention struct {
	// id of the intervention.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`

	// type is Retry or Skip.
	// +optional
	Type HookInterventionType `json:"type,omitempty"`

	// user is the name of the user who sent the request.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	User string `json:"user,omitempty"`

	// reason is the reason that the user gave, without known secrets.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// handledTimestamp is when the operator handled it.
	// +optional
	HandledTimestamp metav1.Time `json:"handledTimestamp,omitempty,omitzero"`

	// outcome is Accepted or Refused.
	// +optional
	Outcome HookInterventionOutcome `json:"outcome,omitempty"`

	// message says in one sentence what the operator does, or why it refused.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HookRunStatus is the observed state of a HookRun.
type HookRunStatus struct {
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
	Phase HookRunPhase `json:"phase,omitempty"`

	// message says in one sentence what happens or how the HookRun ended.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// startTimestamp is when the first attempt began.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// completionTimestamp is when the HookRun finished.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// duration is the time from start to end, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`

	// attempts are the last attempts, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Attempts []HookAttempt `json:"attempts,omitempty"`

	// attempt is the number of the last attempt.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// failures is how many attempts failed since the last retry that a user requested. Attempts
	// that were interrupted because the operator stopped are not counted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// nextCallTimestamp is when the action is called again, because it answered "not done
	// yet" or an attempt failed.
	// +optional
	// +nullable
	NextCallTimestamp *metav1.Time `json:"nextCallTimestamp,omitempty"`

	// removing is set after the HookRun has finished, while the resources that ran for it,
	// such as a Job, are still to be removed. The finalizer stays until then.
	// +optional
	Removing bool `json:"removing,omitempty"`

	// outputs are the outputs of the action.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Outputs map[string]ParameterValue `json:"outputs,omitempty"`

	// lastIntervention is the last intervention that the operator has handled.
	// +optional
	LastIntervention *HandledHookIntervention `json:"lastIntervention,omitempty"`
}

// HookRun is one execution of one action for one Backup, Restore or DeletionRun. Only
// the operator creates HookRuns.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=ghr
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Hook",type=string,JSONPath=`.spec.hook`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.actionName`
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=`.spec.pluginRef.name`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.duration`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type HookRun struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was planned.
	// +required
	Spec HookRunSpec `json:"spec,omitzero"`

	// status is the observed state of the HookRun.
	// +optional
	// +default={"observedGeneration":-1}
	Status HookRunStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the HookRun.
func (h *HookRun) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions of the HookRun.
func (h *HookRun) SetConditions(c []metav1.Condition) { h.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the HookRun.
func (h *HookRun) ObservedGeneration() *int64 { return &h.Status.ObservedGeneration }

// HookRunList is a list of HookRuns.
//
// +kubebuilder:object:root=true
type HookRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HookRun `json:"items"`
}
