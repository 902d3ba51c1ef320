// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletionCause says why a backup is destroyed.
// +kubebuilder:validation:Enum=Requested;Expired;BackupDeleted;ScheduleLimit
type DeletionCause string

// The causes of a deletion.
const (
	// DeletionCauseRequested means that a person created the DeletionRun.
	DeletionCauseRequested DeletionCause = "Requested"
	// DeletionCauseExpired means that the Backup expired.
	DeletionCauseExpired DeletionCause = "Expired"
	// DeletionCauseBackupDeleted means that a Backup with deletionPolicy Delete was deleted.
	DeletionCauseBackupDeleted DeletionCause = "BackupDeleted"
	// DeletionCauseScheduleLimit means that the Schedule keeps only so many backups.
	DeletionCauseScheduleLimit DeletionCause = "ScheduleLimit"
)

// DeletionRunSpec says which backup is destroyed. Only ttl may change.
//
// +kubebuilder:validation:XValidation:rule="self.backupName == oldSelf.backupName && self.cause == oldSelf.cause",message="is immutable; create a new DeletionRun instead"
// +kubebuilder:validation:XValidation:rule="has(self.backupUID) == has(oldSelf.backupUID) && (!has(self.backupUID) || self.backupUID == oldSelf.backupUID) && has(self.storageLocation) == has(oldSelf.storageLocation) && (!has(self.storageLocation) || self.storageLocation == oldSelf.storageLocation) && has(self.destroyForeign) == has(oldSelf.destroyForeign) && (!has(self.destroyForeign) || self.destroyForeign == oldSelf.destroyForeign)",message="is immutable; create a new DeletionRun instead"
type DeletionRunSpec struct {
	// backupName is the Backup to destroy: its external resources, its files and its
	// objects. If there is no Backup of that name, it is the name of a backup in
	// storageLocation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	BackupName string `json:"backupName,omitempty"`

	// backupUID is the UID of the Backup to destroy. Another Backup of the same name is
	// left alone. Unset means the Backup that exists when the deletion begins.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackupUID string `json:"backupUID,omitempty"`

	// storageLocation is where the backup is stored, if its Backup object no longer
	// exists. Unset means the location of the Backup.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// destroyForeign destroys a backup that no Backup of this cluster made: that of a
	// Velero server, or of another cluster. Without it such a backup is refused.
	// +optional
	DestroyForeign bool `json:"destroyForeign,omitempty"`

	// cause says why the backup is destroyed.
	// +optional
	// +default="Requested"
	Cause DeletionCause `json:"cause,omitempty"`

	// ttl is how long this object is kept after it has finished.
	// +optional
	// +default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than zero"
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// DeletionItemAction is the result of one DeleteItemAction.
type DeletionItemAction struct {
	// actionName is the registered name of the action.
	// +required
	// +kubebuilder:validation:MaxLength=253
	ActionName string `json:"actionName,omitempty"`

	// pluginRef is the Plugin that provides the action.
	// +required
	PluginRef PluginReference `json:"pluginRef,omitzero"`

	// items is the number of objects for which the action has cleaned up.
	// +optional
	Items int64 `json:"items,omitempty"`

	// failed is the number of objects for which the action failed.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// message says in one sentence why the action failed last.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// DeletionRunStatus is the observed state of a deletion.
type DeletionRunStatus struct {
	RunStatus `json:",inline"`

	// phase summarizes the conditions.
	// +optional
	// +kubebuilder:validation:Enum=New;FailedValidation;InProgress;Completed;PartiallyFailed;Failed;Cancelled
	Phase RunPhase `json:"phase,omitempty"`

	// backupName is the name of the Backup object that is destroyed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BackupName string `json:"backupName,omitempty"`

	// backupUID is the UID of that object.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackupUID string `json:"backupUID,omitempty"`

	// storedName is the name of the backup in its location. It differs from the name of
	// the Backup if two locations have backups of the same name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StoredName string `json:"storedName,omitempty"`

	// storedUID is the UID of the Backup that made the stored backup. It is empty if any
	// backup of that name is destroyed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StoredUID string `json:"storedUID,omitempty"`

	// storageLocation is the BackupStorageLocation in use.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageLocation string `json:"storageLocation,omitempty"`

	// backupOutputs are the outputs of the PreBackup actions of the backup, by action.
	// They are passed to the DeleteActions.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	BackupOutputs map[string]ParameterSet `json:"backupOutputs,omitempty"`

	// deleteActionsStatuses are the states of the DeleteActions, in the order they run. It
	// is set only if there are any.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DeleteActionsStatuses *[]ActionStatus `json:"deleteActionsStatuses,omitempty"`

	// deleteItemActions are the results of the DeleteItemActions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DeleteItemActions []DeletionItemAction `json:"deleteItemActions,omitempty"`

	// leftBehind names what could not be removed, as text for people. If there are more
	// than 64 entries, the last one gives the number of further ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	LeftBehind []string `json:"leftBehind,omitempty"`
}

// DeletionRun destroys one backup: delete actions of plugins remove what belongs to
// the backup, then the operator removes its files and its objects. A deletion cannot
// be stopped once it has begun. What an action could not remove is listed at the end.
// The DeletionRun outlives the Backup.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=grapnel,shortName=gdr
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.backupName`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.spec.backupName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Cause",type=string,JSONPath=`.spec.cause`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Location",type=string,priority=1,JSONPath=`.status.storageLocation`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 200",message="metadata.name must have at most 200 characters"
type DeletionRun struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which backup is destroyed.
	// +required
	Spec DeletionRunSpec `json:"spec,omitzero"`

	// status is the observed state of the deletion.
	// +optional
	// +default={"observedGeneration":-1}
	Status DeletionRunStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the DeletionRun.
func (d *DeletionRun) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the DeletionRun.
func (d *DeletionRun) SetConditions(c []metav1.Condition) { d.Status.Conditions = c }

// ObservedGeneration returns a pointer to the observed generation of the DeletionRun.
func (d *DeletionRun) ObservedGeneration() *int64 { return &d.Status.ObservedGeneration }

// Run returns the part of the status that all runs share.
func (d *DeletionRun) Run() *RunStatus { return &d.Status.RunStatus }

// GetPhase returns the phase.
func (d *DeletionRun) GetPhase() RunPhase { return d.Status.Phase }

// SetPhase sets the phase.
func (d *DeletionRun) SetPhase(phase RunPhase) { d.Status.Phase = phase }

// ActionsStatuses returns a pointer to the list of the DeleteActions; there is no second list.
func (d *DeletionRun) ActionsStatuses() (only, none **[]ActionStatus) {
	var nothing *[]ActionStatus
	return &d.Status.DeleteActionsStatuses, &nothing
}

// Desired returns the desired state of the run, and the parameters for plugins.
func (d *DeletionRun) Desired() (DesiredState, map[string]ParameterSet) { return DesiredStateRun, nil }

// RunTimeout returns 0: the operator determines how long a deletion may take.
func (d *DeletionRun) RunTimeout() time.Duration { return 0 }

// WorkTimeout returns 0: a deletion has only the deadline of the run.
func (d *DeletionRun) WorkTimeout() time.Duration { return 0 }

// OperationTimeout returns 0: a deletion starts no operations.
func (d *DeletionRun) OperationTimeout() time.Duration { return 0 }

// DeletionRunList is a list of DeletionRuns.
//
// +kubebuilder:object:root=true
type DeletionRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeletionRun `json:"items"`
}
