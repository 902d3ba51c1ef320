// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pvc

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
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

// PVCAction is the action; see New.
type PVCAction struct{}

var _ restoreaction.Action = PVCAction{}

// NewPVCAction returns the action.
func NewPVCAction() PVCAction {
	return PVCAction{}
}

// Name implements restoreaction.Action.
func (PVCAction) Name() string { return "grapnel.dev/pvc" }

// AppliesTo implements restoreaction.Action.
func (PVCAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "persistentvolumeclaims"}
}

// Execute implements restoreaction.Action.
func (PVCAction) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	var result restoreaction.Result
	if item.ArchivedController().Kind == "Pod" {
		result.Skip = "it belongs to an ephemeral volume, for which its Pod creates a new one"
		return result, nil
	}
	object, archived := item.Object.Object, item.Archived
	field.RemoveKeys(object, []string{"metadata", "annotations"}, controllerAnnotations...)
	volume := field.Get[string](archived.Object, "spec", "volumeName")
	if volume == "" {
		return result, nil
	}
	isBound := isClaimBound(archived.Object)
	if isBound && item.Restore.HasVolumeData(archived.GetNamespace(), archived.GetName()) {
		field.RemoveKeys(object, []string{"spec"}, "volumeName", "dataSource", "dataSourceRef")
		return result, nil
	}
	if isBound {
		result.Warnings = []string{fmt.Sprintf(
			"the backup does not hold the data of this claim: it binds to PersistentVolume %q and no other, "+
				"and stays Pending while that is missing or reserved for another claim", volume)}
	}
	if item.Restore.IsArchived(volumes, "", volume) {
		result.RelatedItems = []restoreaction.ItemRef{{Resource: volumes, Name: volume}}
	}
	return result, nil
}

// isClaimBound reports whether a claim had a volume, and so perhaps data.
func isClaimBound(claim map[string]any) bool {
	switch field.Get[string](claim, "status", "phase") {
	case "Bound", "Lost":
		return true
	}
	return field.Get[string](claim, "metadata", "annotations", bindCompleted) == "yes"
}
