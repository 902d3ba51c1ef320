// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// Action processes objects before they are archived. Its methods are called concurrently.
type Action interface {
	// Name of the action, unique within a run, for logs and errors.
	Name() string
	// AppliesTo reports whether the action handles the objects of a resource. It never gets
	// objects of other resources.
	AppliesTo(resource schema.GroupResource) bool
	// RelatedResources lists the resources whose objects the action may name as related, if
	// that is all that the action does. The engine skips the action when none of these
	// resources can be in the backup, or when all of their objects are anyway. An action
	// with other effects returns nil and is always called.
	RelatedResources() []schema.GroupResource
	// Execute processes one object. An error excludes the object from the archive and is
	// recorded as an error of that object.
	Execute(ctx context.Context, item Item) (Result, error)
}

// Preparer is an Action that must read from the cluster once before its first object.
// Prepare runs concurrently with the collection of objects, at most once per run, and the
// first Execute waits for it.
type Preparer interface {
	Action
	// Prepare initializes the action. An error is recorded as an error of the run, and the
	// action is skipped.
	Prepare(ctx context.Context, reader Reader) error
}

// PluginAction is an Action that runs outside of this program. It has a selector that must
// be requested, and its calls take time: the engine makes several of them concurrently.
type PluginAction interface {
	Action
	// Plugin is the name of the plugin, for logs and results.
	Plugin() string
	// Kind is the kind of the action, "BackupItemAction" or "AsyncBackupItemAction"; empty
	// if unknown.
	Kind() string
	// ResolveSelector requests the selector of the action, at most once per run and before
	// AppliesTo. An error is recorded as an error of the run, or as a warning if it is a
	// *SkippedActionError, and the action is skipped. The error names the action.
	ResolveSelector(ctx context.Context, names ResourceResolver) error
	// Matches reports whether the action gets an object of a resource that AppliesTo
	// accepted. It is cheap. It calls labels, which returns the labels of the object in the
	// cluster, only if they matter.
	Matches(namespace string, labels func() map[string]string) bool
}

// SkippedActionError means that a run continues without an action. It is not a failure.
type SkippedActionError struct {
	// Reason is a sentence for users.
	Reason string
}

// Error returns the reason.
func (e *SkippedActionError) Error() string { return e.Reason }

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

// Item is one object. Actions must not change or retain its JSON.
type Item struct {
	// Resource of the object, with the version it is archived in.
	Resource schema.GroupVersionResource
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
	// JSON of the object, valid until Execute returns.
	JSON []byte
}

// Result is the result of an action for an object.
type Result struct {
	// JSON replaces the object's, unless it is nil. Namespace and name must
	// stay the same.
	JSON []byte
	// Skip is the reason to exclude the object from the archive, as a sentence without a
	// period. No further action gets the object, and only the Warnings and the Operation of
	// the Result are used.
	Skip string
	// RelatedItems are objects to be archived with this one, unless the selection excludes
	// them. Label selectors do not apply to them.
	RelatedItems []RelatedItem
	// Warnings are about the object.
	Warnings []string
	// BackupLabels are added to the Backup.
	BackupLabels map[string]string
	// Operation is what the action started and what continues after the archive is written;
	// nil if there is none.
	Operation *StartedOperation
}

// StartedOperation is an operation that an action started.
type StartedOperation struct {
	// ID is the action's ID for it.
	ID string
	// PostOperationItems are objects to be archived, again if necessary, when it has ended. A
	// restore has none.
	PostOperationItems []RelatedItem
	// PollInterval is how often the action wants to be polled for progress; zero lets the
	// caller choose.
	PollInterval time.Duration
	// Cancel requests that the action end the operation, when no run waits for it. It has
	// its own deadline and is not interrupted when the context ends. An error means that
	// the operation may still be running, and can be shown. Cancel is nil if the action
	// does not support it.
	Cancel func(ctx context.Context) error
}

// RelatedItem names a related object.
type RelatedItem struct {
	// Resource of the object. It is archived in the preferred version.
	Resource schema.GroupResource
	// Namespace of the object, empty for a cluster-scoped one.
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
