// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// StorageClassChanges maps the names of storage classes in a backup to those of this cluster.
type StorageClassChanges struct {
	// ConfigMap has the names, for messages.
	ConfigMap string
	// Names are the new names by the old ones.
	Names map[string]string
}

// StorageClassAction changes the storage class of claims, of volumes, and of the claims of
// StatefulSets, like Velero's action of that name. A claim with a class that does not exist would
// stay Pending, and the templates of a StatefulSet cannot be corrected, so such objects are not
// created.
type StorageClassAction struct {
	changes StorageClassChanges
	// exists reports whether a class will be there when the object is created.
	exists func(ctx context.Context, class string) (bool, error)
}

var _ itemaction.RestoreAction = StorageClassAction{}

// NewStorageClassAction returns the action.
func NewStorageClassAction(changes StorageClassChanges, exists func(ctx context.Context, class string) (bool, error)) StorageClassAction {
	return StorageClassAction{changes: changes, exists: exists}
}

// Name implements itemaction.RestoreAction.
func (StorageClassAction) Name() string { return "grapnel.dev/change-storage-class" }

// AppliesTo implements itemaction.RestoreAction.
func (StorageClassAction) AppliesTo(resource schema.GroupResource) bool {
	switch resource {
	case claims, schema.GroupResource{Resource: "persistentvolumes"}, schema.GroupResource{Group: "apps", Resource: "statefulsets"}:
		return true
	}
	return false
}

// Execute implements itemaction.RestoreAction.
func (a StorageClassAction) Execute(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	err := a.changeClass(ctx, GetMap(item.Object.Object, "spec"))
	for template := range EachMap(item.Object.Object, "spec", "volumeClaimTemplates") {
		if changed := a.changeClass(ctx, GetMap(template, "spec")); changed != nil {
			err = changed
		}
	}
	return itemaction.Result{}, err
}

// changeClass changes the storage class in the spec of a claim or a volume.
func (a StorageClassAction) changeClass(ctx context.Context, spec map[string]any) error {
	old := Get[string](spec, "storageClassName")
	changed, ok := a.changes.Names[old]
	if !ok || old == "" {
		return nil
	}
	spec["storageClassName"] = changed
	exists, err := a.exists(ctx, changed)
	if err != nil {
		return fmt.Errorf("reading StorageClass %s: %w", changed, err)
	}
	if !exists {
		return &itemaction.CreationRefusedError{Reason: fmt.Sprintf(
			"ConfigMap %s changes its storage class %s to %q, which does not exist; create that StorageClass or fix the ConfigMap, and restore again",
			a.changes.ConfigMap, old, changed)}
	}
	return nil
}
