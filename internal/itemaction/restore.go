// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RestoreAction processes objects before they are restored. Its methods are called concurrently,
// with different items.
type RestoreAction interface {
	// Name of the action, unique within a run, for logs and errors.
	Name() string
	// AppliesTo reports whether the action handles the objects of a resource. It never gets
	// objects of other resources.
	AppliesTo(resource schema.GroupResource) bool
	// Execute processes one object. An error fails only this item; see CreationRefusedError
	// for one that does not affect existing objects.
	Execute(ctx context.Context, item *RestoreItem) (RestoreResult, error)
}

// PluginRestoreAction is a RestoreAction that runs outside of this program. It has a selector that must
// be requested, and its Execute may have effects besides its Result: a dry run lists it and
// does not call it.
type PluginRestoreAction interface {
	RestoreAction
	// Plugin is the name of the plugin, for logs and results.
	Plugin() string
	// Kind is the kind of the action, "RestoreItemAction" or "AsyncRestoreItemAction";
	// empty if unknown.
	Kind() string
	// ResolveSelector requests the selector of the action, at most once per run, before
	// AppliesTo and before anything is written. An error ends the run, unless it is an
	// *itemaction.SkippedActionError: then the action is skipped with a warning.
	ResolveSelector(ctx context.Context, names ResourceResolver) error
	// Matches reports whether the action handles an object of a resource that AppliesTo
	// accepted, in the state after earlier actions. It is quick; Execute is called only if
	// it returns true.
	Matches(item *RestoreItem) bool
}

// RestoreItem is one object to be restored.
type RestoreItem struct {
	// Resource of the object, in the version it is restored in.
	Resource schema.GroupVersionResource
	// Object as it will be created: copied by action.CopyForRestore, with its namespace
	// mapped. Actions change it in place.
	Object *unstructured.Unstructured
	// Archived is the object as it was archived, in its original namespace.
	// It must not be changed.
	Archived *unstructured.Unstructured
	// Restore is the context that all items of the restore share.
	Restore *RestoreContext
}

// RestoreContext is what actions may read about their restore. All actions read it
// concurrently, so its functions must be safe for that.
type RestoreContext struct {
	// BackupName is the name of the restored backup.
	BackupName string
	// RestoreName is the name of the restore.
	RestoreName string
	// NamespaceMapping maps the original names of namespaces to their new names.
	NamespaceMapping map[string]string
	// PreserveNodePorts keeps the node ports that Kubernetes allocated.
	PreserveNodePorts bool
	// HasUnquiesceAction reports that an action will start workloads that are restored
	// stopped, after all objects are restored.
	HasUnquiesceAction bool
	// TakeOver reports that the cluster replaces the one that was backed up.
	TakeOver bool
	// IsArchived reports whether an object, by its original namespace and name,
	// is in the archive. Never nil.
	IsArchived func(resource schema.GroupResource, namespace, name string) bool
	// HasVolumeData reports whether the backup contains the data of a claim, by its
	// original namespace and name. Never nil.
	HasVolumeData func(namespace, claim string) bool
}

// MapNamespace returns the name of a namespace of the archive in the cluster.
func (r *RestoreContext) MapNamespace(original string) string {
	if mapped, ok := r.NamespaceMapping[original]; ok {
		return mapped
	}
	return original
}

// RestoreResult is the result of an action for an object.
type RestoreResult struct {
	// Skip is the reason not to restore the object, as a sentence without a period. It is
	// empty for an object to be restored. No further action gets a skipped object.
	Skip string
	// Warnings are about the created object: they do not apply to an object that already
	// existed in the cluster.
	Warnings []string
	// RelatedItems are objects that are restored before this one, if they are in the
	// archive and the restore does not exclude them.
	RelatedItems []ItemRef
	// AreRelatedItemsReady, if set, is called to check whether those RelatedItems that are
	// in the cluster are ready for this object. The engine waits until it returns true, at
	// most for ReadyTimeout; zero means the engine's default. An error ends the waiting.
	AreRelatedItemsReady func(ctx context.Context, restored []ItemRef) (bool, error)
	ReadyTimeout         time.Duration
	// BackupLabels are valid labels to add to the restored Backup.
	BackupLabels map[string]string
	// Operation is what the action started and what continues after the objects are
	// restored; nil if there is none. It is also used with Skip.
	Operation *StartedOperation
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

// CreationRefusedError means that an object must not be created from the archive. An object
// that already exists in the cluster is not affected: it is treated like any other existing
// object. An engine that does not handle the type treats it as an error of the item.
type CreationRefusedError struct {
	// Reason why not, and what to do instead.
	Reason string
}

// Error implements error.
func (e *CreationRefusedError) Error() string { return e.Reason }
