// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package item

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// AnnotationBackupLabels is how labels for the Backup travel with an object, because
// Velero's messages have no field for them: its value is a JSON object of strings.
// The operator takes it from the object before that is archived or created, and honours it only
// if the action added or changed it. Use BackupLabels
// of the responses instead.
const AnnotationBackupLabels = "grapnel.dev/backup-labels"

// MaxBytes is the largest size of an object as JSON that an action may return. The
// API server accepts about 3 MiB.
const MaxBytes = 4 << 20

// MaxRefs is the largest number of objects that one answer may name.
const MaxRefs = 10_000

// MaxOperationIDBytes is how long the ID of an operation may be. It is kept with the run.
const MaxOperationIDBytes = 1024

// ErrUnknownOperation is what Progress and Cancel return, perhaps wrapped, for an
// operation that the action does not know: it never started it, or cannot find it any
// more. The operator gives the operation up as lost when Progress says so for the third
// time in a row. Do not return it when a service that would know cannot be reached now:
// that is any other error. Other methods do not return it.
var ErrUnknownOperation = errors.New("the operation is not known")

// Selector says which objects concern an action. An empty list means all, an empty
// Selector every object. It is asked once per run.
type Selector struct {
	// IncludedNamespaces and ExcludedNamespaces may contain "*" as a wildcard. An
	// action that restricts namespaces is not shown cluster-scoped objects. On
	// restore these are the namespaces that objects are restored into.
	IncludedNamespaces, ExcludedNamespaces []string
	// IncludedResources and ExcludedResources are names in any form that the cluster
	// resolves, "pods" or "deployments.apps".
	IncludedResources, ExcludedResources []string
	// LabelSelector is one in the form of kubectl, "app=shop,tier!=cache".
	LabelSelector string
}

// Ref names an object.
type Ref struct {
	// Group is the API group, "" for the core group, and Resource the plural name.
	Group, Resource string
	// Namespace is empty for a cluster-scoped object. On restore it is the one that
	// the object had in the backup.
	Namespace string
	// Name of the object.
	Name string
}

// Backup is what actions are told of a Backup. It is the same type as for hooks.
type Backup = hook.Backup

// Restore is what actions are told of a Restore. It is the same type as for hooks.
type Restore = hook.Restore

// BackupRequest is one object of a backup.
type BackupRequest struct {
	// Item is the object as earlier actions left it. The action may change it.
	Item *unstructured.Unstructured
	// Backup is the Backup. Its Raw has the form of velero.io/v1, with Grapnel's
	// name, namespace, UID, labels and annotations.
	Backup Backup
}

// BackupResponse is what an action made of an object. A nil one changes nothing.
type BackupResponse struct {
	// Item is the object as it is to be archived, of the same name, namespace,
	// apiVersion and kind. nil means as it was in the request.
	Item *unstructured.Unstructured
	// AdditionalItems are archived too, whatever their labels are, if the backup does
	// not exclude them. Each is archived once.
	AdditionalItems []Ref
	// BackupLabels are added to the Backup, if it has no label of that key.
	BackupLabels map[string]string
}

// RestoreRequest is one object of a restore.
type RestoreRequest struct {
	// Item is the object as earlier actions left it, in the namespace that it had in
	// the backup: the operator maps it after the last action. The action may change
	// it.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it was archived.
	ItemFromBackup *unstructured.Unstructured
	// Restore is the Restore. Its Raw has the form of velero.io/v1.
	Restore Restore
}

// RestoreResponse is what an action made of an object. A nil one changes nothing.
type RestoreResponse struct {
	// Item is the object as it is to be created, of the same name and namespace. Its
	// apiVersion and kind may be others that the cluster serves. nil means as it was in
	// the request.
	Item *unstructured.Unstructured
	// AdditionalItems are restored before the object, if the restore does not exclude
	// them.
	AdditionalItems []Ref
	// SkipRestore leaves the object out.
	SkipRestore bool
	// BackupLabels are added to the Backup that is restored, if it is in this cluster and
	// has no label of that key. They have no effect with SkipRestore.
	BackupLabels map[string]string
}

// DeleteRequest is one object of a backup that is being deleted.
type DeleteRequest struct {
	// Item is the object as it was archived. Changing it changes nothing.
	Item *unstructured.Unstructured
	// Backup is the Backup that is being deleted. Its Raw has the form of velero.io/v1,
	// as in a BackupRequest.
	Backup Backup
}

// Progress is how far an operation is that an action started.
type Progress struct {
	// Completed says that the operation has ended; Err is why it failed, if it did.
	Completed bool
	Err       string
	// Cancelled says that a completed operation ended because of Cancel. It means nothing
	// before: an operation that is still being cancelled goes on. One that was done before
	// Cancel reached it is not cancelled. Velero has no such thing: for version 2 of item
	// actions an operation that was cancelled arrives as one that failed, with Err
	// "cancelled" if it has none.
	Cancelled bool
	// NCompleted of NTotal units are done. The units are words for people: "bytes".
	NCompleted, NTotal int64
	OperationUnits     string
	// Description is one sentence for people.
	Description string
	// Started and Updated may be zero.
	Started, Updated time.Time
}
