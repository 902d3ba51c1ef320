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

// PVCAction makes a PersistentVolumeClaim bind to the volume with its data, or wait for
// it. The archive contains no data of volumes, so a claim must never silently get an empty
// one:
//
//	the claim in the archive              what happens
//	was not bound                         restored unchanged
//	bound, the backup contains the data   restored without volumeName, dataSource and
//	                                      dataSourceRef: it gets a new volume, which is
//	                                      filled from the backup
//	bound, the backup does not            restored with its volumeName, and a warning
//	belongs to a Pod (ephemeral volume)   skipped: the Pod creates a new one
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
	isBound := isClaimBound(archived.Object)
	if isBound && item.Restore.HasVolumeData(archived.GetNamespace(), archived.GetName()) {
		RemoveKeys(object, []string{"spec"}, "volumeName", "dataSource", "dataSourceRef")
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

// isClaimBound reports whether a claim had a volume, and so perhaps data.
func isClaimBound(claim map[string]any) bool {
	switch Get[string](claim, "status", "phase") {
	case "Bound", "Lost":
		return true
	}
	return Get[string](claim, "metadata", "annotations", bindCompleted) == "yes"
}
