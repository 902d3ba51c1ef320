// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	boundByController = "pv.kubernetes.io/bound-by-controller"
	// attacherFinalizerPrefix begins the finalizers of external attachers. They are set
	// while a volume is attached. In a cluster without that attacher, they would block the
	// deletion of the volume forever.
	attacherFinalizerPrefix = "external-attacher/"
)

// PVAction decides how a PersistentVolume is restored: an object that refers to storage
// which is not in the archive. A claim never silently gets a volume without its data.
//
//	the volume in the archive                  what happens
//	was never bound                            restored: it contains no data
//	bound, the backup contains the data        skipped: its claim gets a new volume,
//	                                           which is filled from the backup
//	bound, reclaim policy Retain               restored unchanged, with a warning
//	bound, reclaim policy Delete or Recycle    skipped: its claim gets a new volume
//	released, reclaim policy Retain            restored unchanged, and stays released
//	released, reclaim policy Delete or Recycle skipped: its storage was to be deleted
//
// Retain means that storage outlives its object. That includes static volumes (nfs,
// hostPath, a csi handle that an administrator entered). The restored volume refers to the
// same storage and is reserved for the restored claim, whose namespace may be mapped. Only
// its driver knows whether that storage exists, and its current content; the warning
// mentions that.
//
// With Delete or Recycle, the storage was deleted with the old claim. A restored volume
// object would lead a pod to a missing volume. The claim gets a new one, as with Velero, and
// a warning (see PVCAction).
//
// A restored volume keeps pv.kubernetes.io/provisioned-by: its driver treats it as before,
// also if a user changes the policy to Delete. A volume is never renamed: two objects for
// the same storage lead to data loss.
//
// RebindVolume handles the most common case: the namespace was deleted, and the volume with
// policy Retain is still in the cluster, released.
type PVAction struct{}

var _ itemaction.RestoreAction = PVAction{}

// NewPVAction returns the action.
func NewPVAction() PVAction { return PVAction{} }

// Name implements itemaction.RestoreAction.
func (PVAction) Name() string { return "grapnel.dev/pv" }

// AppliesTo implements itemaction.RestoreAction.
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
	claim := GetMap(object, "spec", "claimRef")
	phase := Get[string](object, "status", "phase")
	v := volumeInfo{
		namespace: Get[string](claim, "namespace"),
		claim:     Get[string](claim, "name"),
		policy:    Get[string](object, "spec", "persistentVolumeReclaimPolicy"),
	}
	// A claimRef without UID only reserves the volume.
	used := Get[string](claim, "uid") != ""
	v.released = used && (phase == "Released" || phase == "Failed")
	v.bound = used && !v.released
	return v
}

// isStorageRetained reports whether the storage outlives the object. The default is Retain.
func (v volumeInfo) isStorageRetained() bool { return v.policy == "Retain" || v.policy == "" }

// Execute implements itemaction.RestoreAction.
func (PVAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	v := readVolumeInfo(item.Archived.Object)
	var result itemaction.Result
	switch {
	case v.released && !v.isStorageRetained():
		result.Skip = "it was released, and its reclaim policy " + v.policy + " released its storage"
		return result, nil
	case v.bound && item.Restore.HasVolumeData(v.namespace, v.claim):
		result.Skip = "its claim gets a new volume with the data from the backup"
		return result, nil
	case v.bound && !v.isStorageRetained():
		result.Skip = "its storage was deleted with its claim, because its reclaim policy is " + v.policy + ": the claim gets a new volume"
		return result, nil
	case v.bound:
		result.Warnings = []string{"the backup does not hold the data of this volume: it refers to the storage that it had, " +
			"and its claim gets the current content of that storage"}
	}
	resetVolume(item.Object.Object, v, item.Restore)
	return result, nil
}

// resetVolume reserves a volume for the restored claim.
func resetVolume(object map[string]any, v volumeInfo, run *itemaction.RestoreContext) {
	RemoveEntries(object, func(entry any) bool {
		name, _ := entry.(string)
		return strings.HasPrefix(name, attacherFinalizerPrefix)
	}, "metadata", "finalizers")
	if v.released {
		// With the UID of its old claim, the volume stays released. Without it, the next
		// claim of that name would get another claim's data.
		return
	}
	RemoveKeys(object, []string{"metadata", "annotations"}, boundByController)
	if claim := GetMap(object, "spec", "claimRef"); claim != nil {
		resetClaimRef(claim, v, run)
	}
}

// resetClaimRef lets a claimRef match any claim with its name.
func resetClaimRef(claim map[string]any, v volumeInfo, run *itemaction.RestoreContext) {
	delete(claim, "uid")
	delete(claim, "resourceVersion")
	if v.namespace != "" {
		claim["namespace"] = run.MapNamespace(v.namespace)
	}
}
