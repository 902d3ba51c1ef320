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

// notes are the annotations of the controllers that bind, schedule and
// provision.
var notes = []string{
	bindCompleted,
	"pv.kubernetes.io/bound-by-controller",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner",
}

var volumes = schema.GroupResource{Resource: "persistentvolumes"}

// Action is the action; see New.
type Action struct{}

var _ restoreaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements restoreaction.Action.
func (Action) Name() string { return "grapnel.dev/pvc" }

// AppliesTo implements restoreaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "persistentvolumeclaims"}
}

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	var result restoreaction.Result
	if item.Controller().Kind == "Pod" {
		result.Skip = "it belongs to an ephemeral volume, for which its Pod makes a new one"
		return result, nil
	}
	object, archived := item.Object.Object, item.Archived
	field.Prune(object, []string{"metadata", "annotations"}, notes...)
	volume := field.Get[string](archived.Object, "spec", "volumeName")
	if volume == "" {
		return result, nil
	}
	isBound := bound(archived.Object)
	if isBound && item.Run.VolumeData(archived.GetNamespace(), archived.GetName()) {
		field.Prune(object, []string{"spec"}, "volumeName", "dataSource", "dataSourceRef")
		return result, nil
	}
	if isBound {
		result.Warnings = []string{fmt.Sprintf(
			"the backup does not hold the data of this claim: it binds to PersistentVolume %q and no other, "+
				"and stays Pending while that is missing or reserved for another claim", volume)}
	}
	if item.Run.Archived(volumes, "", volume) {
		result.Additional = []restoreaction.Ref{{Resource: volumes, Name: volume}}
	}
	return result, nil
}

// bound reports whether a claim had its volume, and so perhaps data.
func bound(claim map[string]any) bool {
	switch field.Get[string](claim, "status", "phase") {
	case "Bound", "Lost":
		return true
	}
	return field.Get[string](claim, "metadata", "annotations", bindCompleted) == "yes"
}
