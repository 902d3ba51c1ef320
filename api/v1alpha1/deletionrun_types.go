// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletionCause says who wants a backup to be destroyed.
// +kubebuilder:validation:Enum=Requested;Expired;BackupDeleted;ScheduleLimit
type DeletionCause string

// The causes of a deletion.
const (
	// DeletionCauseRequested means that a person created the DeletionRun.
	DeletionCauseRequested DeletionCause = "Requested"
	// DeletionCauseExpired means that the time to live of the Backup is over.
	DeletionCauseExpired DeletionCause = "Expired"
	// DeletionCauseBackupDeleted means that a Backup with deletionPolicy Delete was deleted.
	DeletionCauseBackupDeleted DeletionCause = "BackupDeleted"
	// DeletionCauseScheduleLimit means that the Schedule keeps only so many backups.
	DeletionCauseScheduleLimit DeletionCause = "ScheduleLimit"
)

// DeletionRunSpec says which backup is destroyed. Nothing of it but ttl may change.
//
// +kubebuilder:validation:XValidation:rule="self.backupName == oldSelf.backupName && self.cause == oldSelf.cause",message="is immutable; create a new DeletionRun instead"
// +kubebuilder:validation:XValidation:rule="has(self.backupUID) == has(oldSelf.backupUID) && (!has(self.backupUID) || self.backupUID == oldSelf.backupUID) && has(self.storageLocation) == has(oldSelf.storageLocation) && (!has(self.storageLocation) || self.storageLocation == oldSelf.storageLocation) && has(self.destroyForeign) == has(oldSelf.destroyForeign) && (!has(self.destroyForeign) || self.destroyForeign == oldSelf.destroyForeign)",message="is immutable; create a new DeletionRun instead"
type DeletionRunSpec struct {
	// backupName is the backup to destroy: its external things, its files and its objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	BackupName string `json:"backupName"`

	// backupUID is the UID of the Backup that is meant. Another one that has its name by
	// then is left alone. Unset means the one that there is when the deletion begins.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackupUID string `json:"backupUID,omitempty"`

	// storageLocation is where the backup is stored, if its Backup object is gone. Unset
	// means the location of the Backup.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// destroyForeign destroys a backup that another system made, for example a Velero
	// server. Without it such a backup is refused.
	// +optional
	DestroyForeign bool `json:"destroyForeign,omitempty"`

	// cause says who wants that.
	// +optional
	// +default="Requested"
	Cause DeletionCause `json:"cause,omitempty"`

	// ttl is how long this object is kept after it has ended.
	// +optional
	// +default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// DeletionRunPhase summarises the conditions of a DeletionRun in one word.
// +kubebuilder:validation:Enum=New;FailedValidation;Waiting;InProgress;Completed;PartiallyFailed
type DeletionRunPhase string

// The phases of a DeletionRun. FailedValidation, Completed and PartiallyFailed are terminal.
const (
	// DeletionRunPhaseNew means that nothing has begun.
	DeletionRunPhaseNew DeletionRunPhase = "New"
	// DeletionRunPhaseFailedValidation means that nothing was done, as it is written wrongly.
	DeletionRunPhaseFailedValidation DeletionRunPhase = "FailedValidation"
	// DeletionRunPhaseWaiting means that the backup is being made or restored.
	DeletionRunPhaseWaiting DeletionRunPhase = "Waiting"
	// DeletionRunPhaseInProgress means that something is being removed.
	DeletionRunPhaseInProgress DeletionRunPhase = "InProgress"
	// DeletionRunPhaseCompleted means that all is gone.
	DeletionRunPhaseCompleted DeletionRunPhase = "Completed"
	// DeletionRunPhasePartiallyFailed means that the backup is gone, and something that
	// belongs to it was left behind.
	DeletionRunPhasePartiallyFailed DeletionRunPhase = "PartiallyFailed"
)

// DeletionItemAction tells what one DeleteItemAction did.
type DeletionItemAction struct {
	// pluginName is the registered name of the action.
	// +required
	// +kubebuilder:validation:MaxLength=253
	PluginName string `json:"pluginName"`

	// pluginRef is the Plugin that provides it.
	// +required
	PluginRef PluginReference `json:"pluginRef"`

	// items is how many objects it has cleaned up after.
	// +optional
	Items int64 `json:"items,omitempty"`

	// failed is for how many it could not.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// message says in one sentence why it failed last.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// DeletionRunStatus tells how a deletion stands.
type DeletionRunStatus struct {
	// conditions are Succeeded (Unknown while it goes on), ActionsDone, DataDeleted, and
	// Ready, Reconciling and Stalled as in kstatus.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase summarises the conditions.
	// +optional
	Phase DeletionRunPhase `json:"phase,omitempty"`

	// message says in one sentence what is being done, or how it ended.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// startTimestamp is when the deletion began.
	// +optional
	// +nullable
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`

	// completionTimestamp is when it ended.
	// +optional
	// +nullable
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`

	// backupUID is the UID of the Backup that is destroyed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackupUID string `json:"backupUID,omitempty"`

	// storageLocation is the BackupStorageLocation in use.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// deleteActionsStatuses tells how the DeleteActions stand, in the order they run. It is
	// set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DeleteActionsStatuses *[]ActionStatus `json:"deleteActionsStatuses,omitempty"`

	// deleteItemActions tells what the DeleteItemActions did.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DeleteItemActions []DeletionItemAction `json:"deleteItemActions,omitempty"`

	// attempts is how often the work on archived objects and files was begun. It is more
	// than one if something failed, or if the operator went away in between.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// leftBehind names what could not be removed, in words for people. Of more than 64
	// things the last one says how many more there are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=65
	// +kubebuilder:validation:items:MaxLength=1024
	LeftBehind []string `json:"leftBehind,omitempty"`
}

// DeletionRun destroys one backup: it has delete actions of plugins remove what belongs to
// it, and then removes its files and its objects. Nothing can stop that: what an action
// could not remove is listed at the end. It outlives the Backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gdr
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.spec.backupName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Cause",type=string,JSONPath=`.spec.cause`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Location",type=string,priority=1,JSONPath=`.status.storageLocation`
type DeletionRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which backup is destroyed.
	// +required
	Spec DeletionRunSpec `json:"spec"`

	// status tells how it stands.
	// +optional
	Status DeletionRunStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the DeletionRun.
func (d *DeletionRun) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the DeletionRun.
func (d *DeletionRun) SetConditions(c []metav1.Condition) { d.Status.Conditions = c }

// Ended says whether the deletion has ended, well or not.
func (d *DeletionRun) Ended() bool { return d.Status.CompletionTimestamp != nil }

// DeletionRunList is a list of DeletionRuns.
//
// +kubebuilder:object:root=true
type DeletionRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeletionRun `json:"items"`
}
