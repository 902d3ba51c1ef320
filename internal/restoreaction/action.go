// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restoreaction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// Action looks at objects that are about to be restored. Its methods are
// called from many goroutines at a time, with different items.
type Action interface {
	// Name of the action, unique within a run, for logs and errors.
	Name() string
	// AppliesTo reports whether the objects of a resource concern the action.
	// Objects of other resources are never shown to it.
	AppliesTo(resource schema.GroupResource) bool
	// Execute looks at one object. An error fails this item only; see
	// CreationRefusedError for one that spares objects that exist.
	Execute(ctx context.Context, item *Item) (Result, error)
}

// PluginAction is an Action that something outside of this program carries out. It has
// to be asked which objects concern it, and its Execute may have effects besides its
// Result: a dry run names it and does not call it.
type PluginAction interface {
	Action
	// Plugin is the name of what carries the action out, for logs and results.
	Plugin() string
	// Kind is the kind of the action, "RestoreItemAction" or "AsyncRestoreItemAction";
	// empty if that is not known.
	Kind() string
	// ResolveSelector asks the action which objects concern it, at most once per run, before
	// AppliesTo and before anything is written. An error ends the run, unless it is
	// an *itemaction.SkippedActionError: then the action is left out with a warning.
	ResolveSelector(ctx context.Context, names itemaction.ResourceResolver) error
	// Matches reports whether an object of a resource that AppliesTo reported
	// concerns the action, as earlier actions left it. It is quick; Execute is called
	// only for an object of which it is true.
	Matches(item *Item) bool
}

// Item is one object on its way into the cluster.
type Item struct {
	// Resource of the object, in the version it is restored in.
	Resource schema.GroupVersionResource
	// Object as it will be created: made by clean.Copy, its namespace mapped.
	// Actions change it in place.
	Object *unstructured.Unstructured
	// Archived is the object as it was archived, in its original namespace.
	// It must not be changed.
	Archived *unstructured.Unstructured
	// Restore is what is the same for all items of the restore.
	Restore *RestoreContext
}

// RestoreContext is what actions may know about the restore that they are part of. It is
// read by all of them at a time, and its functions must allow that.
type RestoreContext struct {
	// BackupName is the name of the backup that is restored.
	BackupName string
	// RestoreName is the name of the restore.
	RestoreName string
	// NamespaceMapping has the new names of namespaces by their original ones.
	NamespaceMapping map[string]string
	// PreserveNodePorts keeps the node ports that Kubernetes chose.
	PreserveNodePorts bool
	// HasUnquiesceAction says that something is to start what comes back stopped, once all is restored.
	HasUnquiesceAction bool
	// TakeOver says that the cluster takes the place of the one that was backed up.
	TakeOver bool
	// IsArchived reports whether an object, by its original namespace and name,
	// is in the archive. Never nil.
	IsArchived func(resource schema.GroupResource, namespace, name string) bool
	// HasVolumeData reports whether the backup holds the data of a claim, by its
	// original namespace and name. Never nil.
	HasVolumeData func(namespace, claim string) bool
}

// MapNamespace returns the name that a namespace of the archive has in the
// cluster.
func (r *RestoreContext) MapNamespace(original string) string {
	if mapped, ok := r.NamespaceMapping[original]; ok {
		return mapped
	}
	return original
}

// Result is what an action has to say about an object.
type Result struct {
	// Skip is the reason why the object is not restored, as a sentence without
	// its end. Empty: it is. No further action sees a skipped object.
	Skip string
	// Warnings are about the object that is created: they do not concern one
	// that was in the cluster before.
	Warnings []string
	// RelatedItems are objects that are restored before this one, if they are in
	// the archive and the restore does not exclude them.
	RelatedItems []ItemRef
	// AreRelatedItemsReady, if set, is asked whether those of Additional that are in the cluster now
	// are ready for this object, which waits until it says yes, for ReadyTimeout at
	// most; zero means the engine's default. An error ends the waiting.
	AreRelatedItemsReady func(ctx context.Context, restored []ItemRef) (bool, error)
	ReadyTimeout         time.Duration
	// BackupLabels are labels for the Backup that is restored, valid ones.
	BackupLabels map[string]string
	// Operation is what the action started and what goes on after the objects are
	// restored; nil if nothing. It counts also with Skip.
	Operation *StartedOperation
}

// StartedOperation is something that an action started.
type StartedOperation struct {
	// ID is the action's name for it.
	ID string
	// PollInterval is how often the action wants to be asked how far it is; zero
	// leaves that to whoever asks.
	PollInterval time.Duration
	// Cancel asks the action to end it, for when nobody would wait for its end. It
	// has a deadline of its own and goes on when the context ends. An error says
	// that the operation may still go on, and can be shown. Cancel is nil if the
	// action has no way to do it.
	Cancel func(ctx context.Context) error
}

// ItemRef names an object of the archive.
type ItemRef struct {
	// Resource of the object. It is restored in the version chosen for it.
	Resource schema.GroupResource
	// Namespace of the object in the archive, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
}

// CreationRefusedError says that an object must not be created from the archive. One
// that is in the cluster already is not touched by that: it is treated as any
// existing object. An engine that does not look takes it as what it is, an
// error of the item.
type CreationRefusedError struct {
	// Reason why not, and what to do instead.
	Reason string
}

// Error implements error.
func (e *CreationRefusedError) Error() string { return e.Reason }
