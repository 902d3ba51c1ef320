// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RunPhase summarizes the conditions of a Backup, Restore or DeletionRun in one word. The
// field status.phase of each kind lists the phases that the kind can have.
type RunPhase string

// The phases of runs. Those from RunPhaseCompleted on, and those that start with Failed, are
// terminal: they never change.
const (
	// RunPhaseNew means that the run has not started; the message says what it waits for.
	RunPhaseNew RunPhase = "New"
	// RunPhaseFailedValidation means that nothing was done, because the spec is invalid.
	RunPhaseFailedValidation RunPhase = "FailedValidation"
	// RunPhaseInProgress means that Pre actions run, or objects are archived, restored or
	// removed.
	RunPhaseInProgress RunPhase = "InProgress"
	// RunPhaseFailedPreBackupActions means that a PreBackup action failed, and nothing was
	// archived.
	RunPhaseFailedPreBackupActions RunPhase = "FailedPreBackupActions"
	// RunPhaseFailedPreRestoreActions means that a PreRestore action failed, and nothing was
	// restored.
	RunPhaseFailedPreRestoreActions RunPhase = "FailedPreRestoreActions"
	// RunPhaseWaitingForPluginOperations means that every object was processed, and operations
	// of plugins still run.
	RunPhaseWaitingForPluginOperations RunPhase = "WaitingForPluginOperations"
	// RunPhaseWaitingForPluginOperationsPartiallyFailed is the same for a run with errors.
	RunPhaseWaitingForPluginOperationsPartiallyFailed RunPhase = "WaitingForPluginOperationsPartiallyFailed"
	// RunPhaseFinalizing means that the operations have ended, and the run is being finished.
	RunPhaseFinalizing RunPhase = "Finalizing"
	// RunPhaseFinalizingPartiallyFailed is the same for a run with errors.
	RunPhaseFinalizingPartiallyFailed RunPhase = "FinalizingPartiallyFailed"
	// RunPhaseCompleted means that everything selected is archived, restored or removed.
	RunPhaseCompleted RunPhase = "Completed"
	// RunPhasePartiallyFailed means that some objects or operations failed. A DeletionRun has
	// removed the backup, but left something behind that belongs to it.
	RunPhasePartiallyFailed RunPhase = "PartiallyFailed"
	// RunPhaseFailed means that the run failed as a whole, for example at its deadline.
	RunPhaseFailed RunPhase = "Failed"
	// RunPhaseCancelled means that the run was canceled or deleted. A DeletionRun has removed
	// nothing.
	RunPhaseCancelled RunPhase = "Cancelled"
)

// RunStatus is the part of the status that Backups, Restores and DeletionRuns share.
type RunStatus struct {
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

	// message says in one sentence what the run does or how it ended.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// startTimestamp is when the plan was recorded and the run began.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// completionTimestamp is when the outcome was recorded, before the Post actions run.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// warnings is how many warnings there are; the results file lists them.
	// +optional
	Warnings int64 `json:"warnings,omitempty"`

	// errors is how many errors there are; the results file lists them.
	// +optional
	Errors int64 `json:"errors,omitempty"`

	// problems are the first errors, at most 10, and the first warnings, at most 10. The results
	// file lists all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// validationErrors lists all validation errors at once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	ValidationErrors []string `json:"validationErrors,omitempty"`

	// planWarnings lists problems that were found while the plan was made and did not stop
	// the run. They are counted in warnings and listed in the results file.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	PlanWarnings []string `json:"planWarnings,omitempty"`

	// itemActions are the planned item actions of plugins, in the order in which objects
	// are passed to them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ItemActions []PlannedItemAction `json:"itemActions,omitempty"`

	// failureReason says why the run failed as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	FailureReason string `json:"failureReason,omitempty"`

	// attempts is how often the work on objects was started. It is more than one if the
	// operator stopped in between.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// crashes counts consecutive crashes of the operator while it worked on one step of
	// the run. The third crash ends the run, or the fifth if other work ran at the same
	// time.
	// +optional
	Crashes *StepCrashes `json:"crashes,omitempty"`

	// operations counts the operations that actions started on objects.
	// +optional
	Operations *OperationCounts `json:"operations,omitempty"`

	// timeline lists the stages of the run in their order. If there are more than 32, those after
	// the 16th that are the oldest are dropped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Timeline []RunStage `json:"timeline,omitempty"`
}

// RunStage is what a run did or waited for during a time. A stage begins when the stage before
// ends.
type RunStage struct {
	// name is the reason of the condition Reconciling during the stage, for example Queued,
	// Archiving or RunningPostBackupActions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// startTimestamp is when the stage began.
	// +required
	StartTimestamp MicroTime `json:"startTimestamp,omitempty,omitzero"`

	// completionTimestamp is when the stage ended; unset for the current stage.
	// +optional
	// +nullable
	CompletionTimestamp *MicroTime `json:"completionTimestamp,omitempty"`
}

// StepCrashes counts unexpected exits of the operator's process.
type StepCrashes struct {
	// step is the part of the run during which the operator crashed.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Step string `json:"step,omitempty"`

	// count is the number of consecutive crashes.
	// +required
	Count int32 `json:"count,omitempty"`
}

// OperationCounts counts the operations of a Backup or Restore. Operations that a
// later attempt started again are not counted.
type OperationCounts struct {
	// attempted is how many were started.
	// +optional
	Attempted int32 `json:"attempted"`

	// completed is how many succeeded.
	// +optional
	Completed int32 `json:"completed"`

	// failed is how many failed, timed out, or have an unknown outcome.
	// +optional
	Failed int32 `json:"failed"`

	// cancelled is how many ended on request.
	// +optional
	Cancelled int32 `json:"cancelled"`

	// capturing is how many may still capture data: they run, and have not reported that their
	// data is captured.
	// +optional
	Capturing int32 `json:"capturing,omitempty"`

	// percent is the progress of all operations together. Each counts the same. An
	// operation whose total is unknown counts when it has ended.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent"`

	// sums are the reported numbers, added up for each unit.
	// +optional
	// +listType=map
	// +listMapKey=units
	// +kubebuilder:validation:MaxItems=8
	Sums []OperationSum `json:"sums,omitempty"`
}

// OperationSum is the progress in one unit.
type OperationSum struct {
	// units is the unit that is counted, for example bytes.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Units string `json:"units,omitempty"`

	// completed is how many units are done.
	// +optional
	Completed int64 `json:"completed"`

	// total is how many units there are.
	// +optional
	Total int64 `json:"total"`
}

// PlannedItemAction is an action of a plugin that receives objects.
type PlannedItemAction struct {
	// name is the registered name of the action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// kind of the action.
	// +optional
	Kind ActionKind `json:"kind,omitempty"`

	// plugin is the name of the Plugin that provides the action.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`

	// timeout is how long one call may take.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failurePolicy Ignore lets the run continue without the action if the action cannot
	// report which objects it applies to.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// operation says how the operator watches the operations that the action starts. The
	// operator's defaults apply to unset fields.
	// +optional
	Operation *OperationPolicy `json:"operation,omitempty"`
}
