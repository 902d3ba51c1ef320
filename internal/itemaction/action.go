// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
)

// Action looks at objects that are about to be archived. Its methods are
// called from many goroutines at a time.
type Action interface {
	// Name of the action, unique within a run, for logs and errors.
	Name() string
	// AppliesTo reports whether the objects of a resource concern the action.
	// Objects of other resources are never shown to it.
	AppliesTo(resource schema.GroupResource) bool
	// RelatedResources lists the resources whose objects the action may name as related,
	// if that is all the action does: it is left out when none of them can be
	// in the backup, or all of their objects are anyway. An action that has
	// other effects returns nil and is always asked.
	RelatedResources() []schema.GroupResource
	// Execute looks at one object. An error keeps the object out of the
	// archive and is recorded as an error of that object.
	Execute(ctx context.Context, item Item) (Result, error)
}

// Preparer is an Action that must look at the cluster once before its first
// object. Prepare runs beside the collection of objects, at most once per run,
// and the first Execute waits for it.
type Preparer interface {
	Action
	// Prepare gets ready. An error is recorded as an error of the run, and the
	// action is left out.
	Prepare(ctx context.Context, reader Reader) error
}

// PluginAction is an Action that something outside of this program carries out. It has
// to be asked which objects concern it, and its calls take time: the engine makes
// several of them at once.
type PluginAction interface {
	Action
	// Plugin is the name of what carries the action out, for logs and results.
	Plugin() string
	// Kind is the kind of the action, "BackupItemAction" or "AsyncBackupItemAction";
	// empty if that is not known.
	Kind() string
	// ResolveSelector asks the action which objects concern it, at most once per run and
	// before AppliesTo. An error is recorded as an error of the run, or as a
	// warning if it is a *SkippedActionError, and the action is left out. It names the action.
	ResolveSelector(ctx context.Context, names ResourceResolver) error
	// Matches reports whether an object of a resource that AppliesTo accepted is
	// shown to the action. It is cheap. The labels are those that the object has in
	// the cluster, and are asked for only if they matter.
	Matches(namespace string, labels func() map[string]string) bool
}

// SkippedActionError says that a run goes on without an action, which is no error.
type SkippedActionError struct {
	// Reason is a sentence for people.
	Reason string
}

// Error returns the reason.
func (e *SkippedActionError) Error() string { return e.Reason }

// ResourceResolver resolves what people and plugins call resources; selection.Resolver is one.
type ResourceResolver interface {
	// Resolve returns the resource that a name means, "pods", "deploy" or
	// "deployments.apps", and false if the cluster does not know it.
	Resolve(name string) (schema.GroupResource, bool)
}

// Reader reads objects of the cluster for an action.
type Reader interface {
	// ListAll lists all objects of a resource in its preferred version. Items
	// keep their memory. A resource that the cluster does not serve has none.
	ListAll(ctx context.Context, resource schema.GroupResource) ([]list.Item, error)
}

// Item is one object. Actions must not change or keep its JSON.
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

// Result is what an action has to say about an object.
type Result struct {
	// JSON replaces the object's, unless it is nil. Namespace and name must
	// stay the same.
	JSON []byte
	// Skip leaves the object out of the archive, for this reason, which is a sentence
	// without its end. No further action sees it, and nothing else of the Result but
	// its Warnings and Operation counts.
	Skip string
	// RelatedItems are objects to be archived with this one, if the selection does
	// not exclude them. Label selectors do not apply to them.
	RelatedItems []RelatedItem
	// Warnings are about the object.
	Warnings []string
	// BackupLabels are to be added to the Backup.
	BackupLabels map[string]string
	// Operation is what the action started and what goes on after the archive is
	// written; nil if nothing.
	Operation *StartedOperation
}

// StartedOperation is something that an action started.
type StartedOperation struct {
	// ID is the action's name for it.
	ID string
	// PostOperationItems are objects to be archived, again if need be, when it has ended.
	PostOperationItems []RelatedItem
	// PollInterval is how often the action wants to be asked how far it is; zero
	// leaves that to whoever asks.
	PollInterval time.Duration
	// Cancel asks the action to end it, for when nobody would wait for its end. It
	// has a deadline of its own and goes on when the context ends. An error says
	// that the operation may still go on, and can be shown. Cancel is nil if the
	// action has no way to do it.
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
	// Optional says that the object may well not exist. Otherwise a missing
	// one is a warning.
	Optional bool
	// IgnoreSelection archives it even if the selection excludes it.
	IgnoreSelection bool
	// Item is the object itself, if the action has it at hand.
	Item *list.Item
}
