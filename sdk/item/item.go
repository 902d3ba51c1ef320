// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package item

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// AnnotationBackupLabels is how labels for the Backup travel with an object, because Velero's
// messages have no field for them: its value is a JSON object of strings. The operator removes
// it before the object is archived or created, and honors it only if the action added or
// changed it. Use BackupLabels of the responses instead.
const AnnotationBackupLabels = "grapnel.dev/backup-labels"

// MaxBytes is the largest size of an object as JSON that an action may return. The
// API server accepts about 3 MiB.
const MaxBytes = 4 << 20

// MaxRefs is the largest number of objects that one response may name.
const MaxRefs = 10_000

// MaxOperationIDBytes is the maximum length of the ID of an operation. The ID is stored
// with the run.
const MaxOperationIDBytes = 1024

// ErrUnknownOperation is what Progress and Cancel return, perhaps wrapped, for an operation
// that the action does not know: the action never started it or can no longer find it. The
// operator records the operation as lost when Progress returns this error for the third
// time in a row. Do not return it while a service that would know is unreachable: return
// any other error then. Other methods do not return it.
var ErrUnknownOperation = errors.New("the operation is not known")

// Selector selects the objects that an action applies to. An empty list means all, an empty
// Selector every object. It is requested once per run.
type Selector struct {
	// IncludedNamespaces and ExcludedNamespaces may contain "*" as a wildcard. An action
	// that restricts namespaces is not called for cluster-scoped objects. On restore these
	// are the namespaces that objects are restored into.
	IncludedNamespaces, ExcludedNamespaces []string
	// IncludedResources and ExcludedResources are names in any form that the cluster
	// resolves, "pods" or "deployments.apps".
	IncludedResources, ExcludedResources []string
	// LabelSelector is a label selector in the syntax of kubectl, "app=shop,tier!=cache".
	LabelSelector string
}

// Ref names an object.
type Ref struct {
	// Group is the API group, "" for the core group. Resource is the plural name.
	Group, Resource string
	// Namespace is empty for a cluster-scoped object. On restore it is the namespace of the
	// object in the backup.
	Namespace string
	// Name of the object.
	Name string
}

// Backup is the Backup as actions see it. It is the same type as for hooks.
type Backup = hook.Backup

// Restore is the Restore as actions see it. It is the same type as for hooks.
type Restore = hook.Restore

// BackupRequest is one object of a backup.
type BackupRequest struct {
	// Item is the object as earlier actions left it. The action may change it.
	Item *unstructured.Unstructured
	// Backup is the Backup. Its Raw has the form of velero.io/v1, with Grapnel's
	// name, namespace, UID, labels and annotations.
	Backup Backup
}

// BackupResponse is the response of an action for one object. A nil BackupResponse changes
// nothing.
type BackupResponse struct {
	// Item is the object to archive, with the same name, namespace, apiVersion and kind.
	// nil means unchanged.
	Item *unstructured.Unstructured
	// AdditionalItems are archived too, regardless of their labels, unless the backup
	// excludes them. Each is archived once.
	AdditionalItems []Ref
	// BackupLabels are added to the Backup, unless it already has a label with that key.
	BackupLabels map[string]string
}

// RestoreRequest is one object of a restore.
type RestoreRequest struct {
	// Item is the object as earlier actions left it, in its namespace in the backup: the
	// operator maps the namespace after the last action. The action may change the object.
	Item *unstructured.Unstructured
	// ItemFromBackup is the object as it was archived.
	ItemFromBackup *unstructured.Unstructured
	// Restore is the Restore. Its Raw has the form of velero.io/v1.
	Restore Restore
}

// RestoreResponse is the response of an action for one object. A nil RestoreResponse
// changes nothing.
type RestoreResponse struct {
	// Item is the object to create, with the same name and namespace. Its apiVersion and
	// kind may be others that the cluster serves. nil means unchanged.
	Item *unstructured.Unstructured
	// AdditionalItems are restored before the object, unless the restore excludes them.
	AdditionalItems []Ref
	// SkipRestore leaves the object out.
	SkipRestore bool
	// BackupLabels are added to the Backup that is restored, if the Backup is in this
	// cluster and has no label with that key. They have no effect with SkipRestore.
	BackupLabels map[string]string
}

// DeleteRequest is one object of a backup that is being deleted.
type DeleteRequest struct {
	// Item is the object as it was archived. Changes to it have no effect.
	Item *unstructured.Unstructured
	// Backup is the Backup that is being deleted. Its Raw has the form of velero.io/v1,
	// as in a BackupRequest.
	Backup Backup
}

// Progress is the progress of an operation that an action started.
type Progress struct {
	// Completed is true if the operation has ended. Err is the reason if it failed.
	Completed bool
	Err       string
	// Cancelled is true if a completed operation ended because of Cancel. It is ignored for
	// operations that are not completed: an operation that is still being canceled
	// continues. An operation that was done before Cancel reached it is not canceled.
	// Velero has no such state: for version 2 of item actions, a canceled operation arrives
	// as failed, with Err "cancelled" if it has none.
	Cancelled bool
	// DataCaptured is true from when the data that the operation captures no longer changes, so
	// that the application may write again, although the operation may still move that data: a
	// snapshot was taken, and is being uploaded. It stays true. A completed operation without
	// Err has captured its data. PostBackup actions with runAfter DataCaptured wait for it.
	// Velero's messages do not have it; its operations count as captured from their first
	// progress.
	DataCaptured bool
	// NCompleted of NTotal units are done. The units are for humans: "bytes".
	NCompleted, NTotal int64
	OperationUnits     string
	// Description is one sentence for humans.
	Description string
	// Warning is one sentence about what users should know of an operation of a backup that completed without Err. It
	// becomes a warning of the Backup about the resource in the namespace of the object, which it need not name: the
	// same text of several operations is one warning. Only an AsyncBackupItemAction has it.
	Warning string
	// Started and Updated may be zero.
	Started, Updated time.Time
}
