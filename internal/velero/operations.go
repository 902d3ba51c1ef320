// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// OperationPhase is the state of an operation of an item action.
type OperationPhase string

// The phases. Velero has no phase for a canceled operation: there it has failed.
const (
	OperationNew        OperationPhase = "New"
	OperationInProgress OperationPhase = "InProgress"
	OperationCompleted  OperationPhase = "Completed"
	OperationFailed     OperationPhase = "Failed"
	OperationCancelled  OperationPhase = "Cancelled"
)

// canceledMessage is the error of a canceled operation.
const canceledMessage = "it was canceled"

// ResourceIdentifier names an object. It is encoded as in Velero: the fields of its type
// have no JSON tags.
type ResourceIdentifier struct {
	schema.GroupResource
	Namespace, Name string
}

// String returns the object as users write it.
func (r ResourceIdentifier) String() string {
	if r.Namespace == "" {
		return r.GroupResource.String() + " " + r.Name
	}
	return r.GroupResource.String() + " " + r.Namespace + "/" + r.Name
}

// Operation is an operation that an item action started for one object, with its state.
type Operation struct {
	// Action is the registered name of the action, Kind the kind of it
	// ("AsyncBackupItemAction"), and Plugin the Plugin that provides it.
	Action, Kind, Plugin string
	// Object is the object of the operation. For a restore, it has the name in the cluster.
	Object ResourceIdentifier
	// ID is the ID that the action gave the operation.
	ID string
	// PostItems are the objects to archive when the operation has ended, for a backup only.
	PostItems []ResourceIdentifier

	Phase OperationPhase
	// Message describes the outcome, and the reason for a failure, in one line that may be
	// shown. It is set only when the operation has ended.
	Message string
	// Completed of Total units are done, 0 of 0 if unknown.
	Completed, Total int64
	// Units is the unit of Completed and Total, and Description a sentence of the plugin.
	Units, Description string
	// Warning is what users should know of a completed operation. It is a warning of the run.
	Warning string
	// Created is when the action returned the operation. Started and Updated are from the
	// plugin, zero if unknown.
	Created, Started, Updated time.Time
}

// Failure returns why an operation failed, as an error of its object; nil if it completed.
// An operation that has not ended counts as failed.
func (o Operation) Failure() error {
	operation := fmt.Sprintf("the operation %.100q of action %s of plugin %s", o.ID, o.Action, o.Plugin)
	reason := ""
	if o.Message != "" {
		reason = ": " + o.Message
	}
	switch o.Phase {
	case OperationCompleted:
		return nil
	case OperationCancelled:
		return fmt.Errorf("%s was canceled%s", operation, reason)
	case OperationFailed:
		return fmt.Errorf("%s failed%s", operation, reason)
	case OperationNew, OperationInProgress:
	}
	return fmt.Errorf("%s has not ended%s", operation, reason)
}

// BackupOperation is an element of the file of a backup's operations.
type BackupOperation struct {
	Spec   BackupOperationSpec `json:"spec"`
	Status OperationStatus     `json:"status"`
}

// BackupOperationSpec is what an action started in a backup.
type BackupOperationSpec struct {
	BackupName         string               `json:"backupName"`
	BackupUID          types.UID            `json:"backupUID"`
	BackupItemAction   string               `json:"backupItemAction"`
	ResourceIdentifier ResourceIdentifier   `json:"resourceIdentifier"`
	OperationID        string               `json:"operationID"`
	PostOperationItems []ResourceIdentifier `json:"postOperationItems"`
}

// RestoreOperation is an element of the file of a restore's operations.
type RestoreOperation struct {
	Spec   RestoreOperationSpec `json:"spec"`
	Status OperationStatus      `json:"status"`
}

// RestoreOperationSpec is what an action started in a restore.
type RestoreOperationSpec struct {
	RestoreName        string             `json:"restoreName"`
	RestoreUID         types.UID          `json:"restoreUID"`
	RestoreItemAction  string             `json:"restoreItemAction"`
	ResourceIdentifier ResourceIdentifier `json:"resourceIdentifier"`
	OperationID        string             `json:"operationID"`
}

// OperationStatus is the state of an operation, in either file.
type OperationStatus struct {
	Phase          OperationPhase `json:"phase,omitempty"`
	Error          string         `json:"error,omitempty"`
	NCompleted     int64          `json:"nCompleted,omitempty"`
	NTotal         int64          `json:"nTotal,omitempty"`
	OperationUnits string         `json:"operationUnits,omitempty"`
	Description    string         `json:"description,omitempty"`
	Created        *metav1.Time   `json:"created,omitempty"`
	Started        *metav1.Time   `json:"started,omitempty"`
	Updated        *metav1.Time   `json:"updated,omitempty"`
}

// ToBackupOperations returns the content of the file of a backup's operations. Without
// operations, its JSON is "[]". It is sorted by action, object and ID.
func ToBackupOperations(backup string, uid types.UID, all []Operation) []BackupOperation {
	out := make([]BackupOperation, 0, len(all))
	for _, o := range sortedOperations(all) {
		out = append(out, BackupOperation{
			Spec: BackupOperationSpec{
				BackupName: backup, BackupUID: uid, BackupItemAction: o.Action, ResourceIdentifier: o.Object,
				OperationID: o.ID, PostOperationItems: o.PostItems,
			},
			Status: o.toStatus(),
		})
	}
	return out
}

// ToRestoreOperations returns the content of the file of a restore's operations. Without
// operations, its JSON is "[]". It is sorted by action, object and ID.
func ToRestoreOperations(restore string, uid types.UID, all []Operation) []RestoreOperation {
	out := make([]RestoreOperation, 0, len(all))
	for _, o := range sortedOperations(all) {
		out = append(out, RestoreOperation{
			Spec: RestoreOperationSpec{
				RestoreName: restore, RestoreUID: uid, RestoreItemAction: o.Action, ResourceIdentifier: o.Object, OperationID: o.ID,
			},
			Status: o.toStatus(),
		})
	}
	return out
}

func (o Operation) toStatus() OperationStatus {
	status := OperationStatus{
		Phase: o.Phase, NCompleted: o.Completed, NTotal: o.Total, OperationUnits: o.Units, Description: o.Description,
		Created: toMetaTime(o.Created), Started: toMetaTime(o.Started), Updated: toMetaTime(o.Updated),
	}
	switch o.Phase {
	case OperationFailed:
		status.Error = o.Message
	case OperationCancelled:
		status.Phase, status.Error = OperationFailed, cmp.Or(o.Message, canceledMessage)
	case OperationNew, OperationInProgress, OperationCompleted:
	}
	return status
}

func toMetaTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.UTC()))
}

func sortedOperations(all []Operation) []Operation {
	return slices.SortedFunc(slices.Values(all), func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.ID, b.ID))
	})
}
