// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	// ReadArchived returns an object of the archive, by its original namespace and name, or nil
	// if there is none that can be read. Never nil.
	ReadArchived func(resource schema.GroupResource, namespace, name string) map[string]any
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

// CreationRefusedError means that an object must not be created from the archive. An object
// that already exists in the cluster is not affected: it is treated like any other existing
// object. An engine that does not handle the type treats it as an error of the item.
type CreationRefusedError struct {
	// Reason why not, and what to do instead.
	Reason string
}

// Error implements error.
func (e *CreationRefusedError) Error() string { return e.Reason }
