// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const bindCompleted = "pv.kubernetes.io/bind-completed"

// controllerAnnotations are the annotations of the controllers that bind, schedule and
// provision.
var controllerAnnotations = []string{
	bindCompleted,
	"pv.kubernetes.io/bound-by-controller",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner",
}

var volumes = schema.GroupResource{Resource: "persistentvolumes"}

// PVCAction makes a PersistentVolumeClaim get the volume with its data, as far as that is
// possible. The archive contains no data of volumes; operations of plugins may have captured it.
// A claim never silently gets an empty volume:
//
//	the claim in the archive                  what happens
//	was not bound                             restored unchanged
//	bound, an operation captured its data     restored without volumeName, dataSource and
//	                                          dataSourceRef: an action of a plugin sets the
//	                                          source, or fills the new volume
//	bound, not captured, reclaim policy of    restored without them: it gets a new, empty
//	the archived volume Delete or Recycle     volume, and a warning
//	bound, not captured, otherwise            restored with its volumeName, and a warning
//	belongs to a Pod (ephemeral volume)       skipped: the Pod creates a new one
//
// A claim with a volumeName binds only to that volume: nothing is provisioned for it. While
// the volume is missing, the claim stays Pending, and so does its pod. A StatefulSet finds
// its claim and does not create an empty one instead. If the volume is in the archive, it
// is restored before the claim; see PVAction.
//
// Annotations of the old cluster about binding, scheduling and provisioning are removed:
// with them, a claim would count as bound, and be Lost.
type PVCAction struct{}

var _ itemaction.RestoreAction = PVCAction{}

// NewPVCAction returns the action.
func NewPVCAction() PVCAction {
	return PVCAction{}
}

// Name implements itemaction.RestoreAction.
func (PVCAction) Name() string { return "grapnel.dev/pvc" }

// AppliesTo implements itemaction.RestoreAction.
func (PVCAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "persistentvolumeclaims"}
}

// Execute implements itemaction.RestoreAction.
func (PVCAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	var result itemaction.Result
	if item.ArchivedController().Kind == "Pod" {
		result.Skip = "it belongs to an ephemeral volume, for which its Pod creates a new one"
		return result, nil
	}
	object, archived := item.Object.Object, item.Archived
	RemoveKeys(object, []string{"metadata", "annotations"}, controllerAnnotations...)
	volume := Get[string](archived.Object, "spec", "volumeName")
	if volume == "" {
		return result, nil
	}
	isBound := IsClaimBound(archived.Object)
	if isBound && item.Restore.HasVolumeData(archived.GetNamespace(), archived.GetName()) {
		RemoveKeys(object, []string{"spec"}, "volumeName", "dataSource", "dataSourceRef")
		return result, nil
	}
	if lost := readVolumeInfo(item.Restore.ReadArchived(volumes, "", volume)); isBound && !lost.isStorageRetained() {
		RemoveKeys(object, []string{"spec"}, "volumeName", "dataSource", "dataSourceRef")
		result.Warnings = []string{fmt.Sprintf("the backup does not hold the data of this claim, and the reclaim policy %s of its PersistentVolume %q "+
			"deletes the storage with the claim: it gets a new, empty volume", lost.policy, volume)}
		return result, nil
	}
	if isBound {
		result.Warnings = []string{fmt.Sprintf(
			"the backup does not hold the data of this claim: it binds to PersistentVolume %q and no other, "+
				"and stays Pending while that is missing or reserved for another claim", volume)}
	}
	if item.Restore.IsArchived(volumes, "", volume) {
		result.RelatedItems = []itemaction.RelatedItem{{Resource: volumes, Name: volume}}
	}
	return result, nil
}

// IsClaimBound reports whether a claim had a volume, and so perhaps data.
func IsClaimBound(claim map[string]any) bool {
	switch Get[string](claim, "status", "phase") {
	case "Bound", "Lost":
		return true
	}
	return Get[string](claim, "metadata", "annotations", bindCompleted) == "yes"
}
