// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pv

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

const (
	boundByController = "pv.kubernetes.io/bound-by-controller"
	// attacherFinalizerPrefix begins the finalizers of external attachers. They are set
	// while a volume is attached. In a cluster without that attacher, they would block the
	// deletion of the volume forever.
	attacherFinalizerPrefix = "external-attacher/"
)

// PVAction is the action; see New.
type PVAction struct{}

var _ restoreaction.Action = PVAction{}

// NewPVAction returns the action.
func NewPVAction() PVAction { return PVAction{} }

// Name implements restoreaction.Action.
func (PVAction) Name() string { return "grapnel.dev/pv" }

// AppliesTo implements restoreaction.Action.
func (PVAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "persistentvolumes"}
}

// volumeInfo is the data on which the decision about a PersistentVolume depends.
type volumeInfo struct {
	namespace, claim string // of the claim, empty if there is none
	bound, released  bool
	policy           string
}

// readVolumeInfo reads the volumeInfo of an archived volume.
func readVolumeInfo(object map[string]any) volumeInfo {
	claim := field.GetMap(object, "spec", "claimRef")
	phase := field.Get[string](object, "status", "phase")
	v := volumeInfo{
		namespace: field.Get[string](claim, "namespace"),
		claim:     field.Get[string](claim, "name"),
		policy:    field.Get[string](object, "spec", "persistentVolumeReclaimPolicy"),
	}
	// A claimRef without UID only reserves the volume.
	used := field.Get[string](claim, "uid") != ""
	v.released = used && (phase == "Released" || phase == "Failed")
	v.bound = used && !v.released
	return v
}

// isStorageRetained reports whether the storage outlives the object. The default is Retain.
func (v volumeInfo) isStorageRetained() bool { return v.policy == "Retain" || v.policy == "" }

// Execute implements restoreaction.Action.
func (PVAction) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	v := readVolumeInfo(item.Archived.Object)
	var result restoreaction.Result
	switch {
	case v.released && !v.isStorageRetained():
		result.Skip = "it was released, and its reclaim policy " + v.policy + " released its storage"
		return result, nil
	case v.bound && item.Restore.HasVolumeData(v.namespace, v.claim):
		result.Skip = "its claim gets a new volume with the data from the backup"
		return result, nil
	case v.bound && !v.isStorageRetained():
		return result, &restoreaction.CreationRefusedError{Reason: fmt.Sprintf(
			"the backup does not hold the data of this volume, and with its reclaim policy %s its storage is deleted with "+
				"claim %s/%s: restore the data by other means and create the volume under this name, "+
				"or delete the restored claim to start with an empty one", v.policy, v.namespace, v.claim)}
	case v.bound:
		result.Warnings = []string{"the backup does not hold the data of this volume: it refers to the storage that it had, " +
			"and its claim gets the current content of that storage"}
	}
	resetVolume(item.Object.Object, v, item.Restore)
	return result, nil
}

// resetVolume reserves a volume for the restored claim.
func resetVolume(object map[string]any, v volumeInfo, run *restoreaction.RestoreContext) {
	field.RemoveEntries(object, func(entry any) bool {
		name, _ := entry.(string)
		return strings.HasPrefix(name, attacherFinalizerPrefix)
	}, "metadata", "finalizers")
	if v.released {
		// With the UID of its old claim, the volume stays released. Without it, the next
		// claim of that name would get another claim's data.
		return
	}
	field.RemoveKeys(object, []string{"metadata", "annotations"}, boundByController)
	if claim := field.GetMap(object, "spec", "claimRef"); claim != nil {
		resetClaimRef(claim, v, run)
	}
}

// resetClaimRef lets a claimRef match any claim with its name.
func resetClaimRef(claim map[string]any, v volumeInfo, run *restoreaction.RestoreContext) {
	delete(claim, "uid")
	delete(claim, "resourceVersion")
	if v.namespace != "" {
		claim["namespace"] = run.MapNamespace(v.namespace)
	}
}
