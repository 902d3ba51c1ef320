// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// Action processes objects of a run: T is the form in which a backup or a restore shows them. Its
// methods are called concurrently, with different items. It may also be a Preparer, a
// RelatedResourceLister, a Waiter, an OperationStarter or a PluginAction.
type Action[T any] interface {
	// Name of the action, unique within a run, for logs and errors.
	Name() string
	// AppliesTo reports whether the action handles the objects of a resource. It never gets
	// objects of other resources.
	AppliesTo(resource schema.GroupResource) bool
	// Execute processes one object. An error is recorded as an error of that object, which is
	// not archived or restored then; see CreationRefusedError for one that does not affect
	// existing objects, and RelatedItemsError for one that does not affect the object.
	Execute(ctx context.Context, item T) (Result, error)
}

type (
	// BackupAction processes objects before they are archived.
	BackupAction = Action[BackupItem]
	// RestoreAction processes objects before they are restored.
	RestoreAction = Action[*RestoreItem]
	// BackupPluginAction is a BackupAction of a plugin.
	BackupPluginAction = PluginAction[BackupItem]
	// RestorePluginAction is a RestoreAction of a plugin.
	RestorePluginAction = PluginAction[*RestoreItem]
)

// RelatedResourceLister is an action of a backup that only names related items. The engine skips
// it when no object of these resources can be in the backup, or when all of them are anyway.
type RelatedResourceLister interface {
	// RelatedResources lists the resources whose objects the action may name.
	RelatedResources() []schema.GroupResource
}

// Preparer is an action of a backup that must read from the cluster once before its first object.
// Prepare runs concurrently with the collection of objects, at most once per run, and the
// first Execute waits for it.
type Preparer interface {
	// Prepare initializes the action. An error is recorded as an error of the run, and the
	// action is skipped.
	Prepare(ctx context.Context, reader Reader) error
}

// Waiter is an action that a restore may wait for: see Result.WaitForRelatedItems.
type Waiter[T any] interface {
	// AreRelatedItemsReady reports whether those related items of an object that are in the
	// cluster are ready for it. An error ends the waiting.
	AreRelatedItemsReady(ctx context.Context, item T, restored []RelatedItem) (bool, error)
}

// OperationStarter is an action that can end the operations that it starts.
type OperationStarter[T any] interface {
	// CancelOperation requests that the action end the operation with the ID, which it started
	// for an object, when no run waits for it. It has its own deadline and is not interrupted
	// when the context ends. An error means that the operation may still be running, and can
	// be shown.
	CancelOperation(ctx context.Context, item T, id string) error
}

// PluginAction is an Action that runs outside of this program. It has a selector that must
// be requested, its calls take time, and they may have effects besides the Result: a backup makes
// several of them concurrently, and a dry run of a restore makes none.
type PluginAction[T any] interface {
	Action[T]
	// Plugin is the name of the plugin, for logs and results.
	Plugin() string
	// Kind is the kind of the action, such as "AsyncBackupItemAction"; empty if unknown.
	Kind() string
	// ResolveSelector requests the selector of the action, at most once per run, before
	// AppliesTo and before a restore writes anything. A *SkippedActionError is a warning, and
	// the action is skipped. Any other error ends a restore; it is an error of a backup, which
	// skips the action. The error names the action.
	ResolveSelector(ctx context.Context, names ResourceResolver) error
	// Matches reports whether the action gets an object of a resource that AppliesTo
	// accepted: in a backup as it is in the cluster, in a restore as earlier actions left it. It
	// is cheap, and calls labels, which returns the labels of the object, only if they matter.
	Matches(namespace string, labels func() map[string]string) bool
}

// SkippedActionError means that a run continues without an action. It is not a failure.
type SkippedActionError struct {
	// Reason is a sentence for users.
	Reason string
}

// Error returns the reason.
func (e *SkippedActionError) Error() string { return e.Reason }

// RelatedItemsError means that an action of a backup did not name the objects that belong with an
// object. That object is archived nevertheless.
type RelatedItemsError struct{ Err error }

// Error returns the reason.
func (e *RelatedItemsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RelatedItemsError) Unwrap() error { return e.Err }

// ResourceResolver resolves the names of resources that users and plugins write;
// selection.Resolver is one.
type ResourceResolver interface {
	// Resolve returns the resource for a name such as "pods", "deploy" or
	// "deployments.apps", and false if the cluster does not serve it.
	Resolve(name string) (schema.GroupResource, bool)
}

// Reader reads objects of the cluster for an action.
type Reader interface {
	// ListAll lists all objects of a resource in its preferred version. The items retain
	// their memory. A resource that the cluster does not serve has none.
	ListAll(ctx context.Context, resource schema.GroupResource) ([]rawclient.Item, error)
}

// BackupItem is one object to be archived. Actions must not change or retain its JSON.
type BackupItem struct {
	// Resource of the object, with the version it is archived in.
	Resource schema.GroupVersionResource
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
	// JSON of the object, valid until Execute returns.
	JSON []byte
}

// Result is the result of an action for an object. Actions of a restore change the object itself.
type Result struct {
	// JSON replaces the archived object's, unless it is nil. Namespace and name must
	// stay the same.
	JSON []byte
	// Skip is the reason to exclude the object from the archive or the restore, as a sentence
	// without a period. No further action gets the object, and only the Warnings and the
	// Operation of the Result are used.
	Skip string
	// RelatedItems are objects that are archived with this one, unless the selection excludes
	// them (label selectors do not apply to them), or restored before it, if they are in the
	// archive and not excluded.
	RelatedItems []RelatedItem
	// WaitForRelatedItems makes a restore wait until the action, a Waiter, reports that the
	// RelatedItems are ready, at most for ReadyTimeout; zero means the engine's default.
	WaitForRelatedItems bool
	ReadyTimeout        time.Duration
	// Warnings are about the object. In a restore, they do not apply to an object that already
	// existed in the cluster.
	Warnings []string
	// BackupLabels are valid labels that are added to the Backup.
	BackupLabels map[string]string
	// Operation is what the action started and what continues after the archive is written, or
	// the objects are restored; nil if there is none.
	Operation *Operation
	// DataNotCaptured is why a backup does not have the data of the object, a claim, if there is
	// no Operation; empty if the action does not know.
	DataNotCaptured string
}

// Operation is an operation that an action started for one object. An action sets the ID,
// PostItems and PollInterval, and the engine the rest.
type Operation struct {
	// ID is the action's ID for it. An action may use the same ID for many objects.
	ID string
	// PostItems are objects to be archived, again if necessary, when it has ended. A restore has
	// none.
	PostItems []RelatedItem
	// PollInterval is how often the action wants to be polled for progress; zero lets the
	// caller choose.
	PollInterval time.Duration
	// Kind and Action are the kind and name of the action, and Plugin is the Plugin that provides
	// it. Kind and Plugin are empty for an action of Grapnel itself.
	Kind, Action, Plugin string
	// Resource, Namespace and Name identify the object, with the version it is archived in. In a
	// restore, they are those in the cluster, without a version; the Resource of a converted object
	// is that of the archive.
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// RelatedItem names a related object. The last three fields are for a backup.
type RelatedItem struct {
	// Resource of the object. It is archived in the preferred version, and restored in the version
	// chosen for it.
	Resource schema.GroupResource
	// Namespace of the object, in a restore its original one; empty for a cluster-scoped object.
	Namespace string
	// Name of the object.
	Name string
	// Optional reports that the object may not exist. Otherwise a missing object is a
	// warning.
	Optional bool
	// IgnoreSelection archives it even if the selection excludes it.
	IgnoreSelection bool
	// Item is the object itself, if the action has it.
	Item *rawclient.Item
}
