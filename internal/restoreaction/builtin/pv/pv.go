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
	// attacherFinalizerPrefix begins the finalizers of external attachers. They are set while
	// a volume is attached, and would keep one from ever being deleted in a
	// cluster without that attacher.
	attacherFinalizerPrefix = "external-attacher/"
)

// Action is the action; see New.
type Action struct{}

var _ restoreaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements restoreaction.Action.
func (Action) Name() string { return "grapnel.dev/pv" }

// AppliesTo implements restoreaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "persistentvolumes"}
}

// volumeInfo is what decides about a PersistentVolume.
type volumeInfo struct {
	namespace, claim string // of the claim, empty if there is none
	bound, released  bool
	policy           string
}

// readVolumeInfo returns what an archived volume says about itself.
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

// isStorageRetained reports whether the storage outlives the object. Nothing said means
// Retain.
func (v volumeInfo) isStorageRetained() bool { return v.policy == "Retain" || v.policy == "" }

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	v := readVolumeInfo(item.Archived.Object)
	var result restoreaction.Result
	switch {
	case v.released && !v.isStorageRetained():
		result.Skip = "it was released, and its reclaim policy " + v.policy + " gave its storage up"
		return result, nil
	case v.bound && item.Restore.HasVolumeData(v.namespace, v.claim):
		result.Skip = "its claim gets a new volume with the data from the backup"
		return result, nil
	case v.bound && !v.isStorageRetained():
		return result, &restoreaction.CreationRefusedError{Reason: fmt.Sprintf(
			"the backup does not hold the data of this volume, and with its reclaim policy %s its storage goes when "+
				"claim %s/%s does: bring the data back by other means and create the volume under this name, "+
				"or delete the restored claim to start with an empty one", v.policy, v.namespace, v.claim)}
	case v.bound:
		result.Warnings = []string{"the backup does not hold the data of this volume: it names the storage that it had, " +
			"and its claim gets what is there now"}
	}
	resetVolume(item.Object.Object, v, item.Restore)
	return result, nil
}

// resetVolume makes a volume wait for the restored claim.
func resetVolume(object map[string]any, v volumeInfo, run *restoreaction.RestoreContext) {
	field.RemoveEntries(object, func(entry any) bool {
		name, _ := entry.(string)
		return strings.HasPrefix(name, attacherFinalizerPrefix)
	}, "metadata", "finalizers")
	if v.released {
		// With the UID of its old claim it stays released. Without, the next
		// claim of that name would get somebody's data.
		return
	}
	field.RemoveKeys(object, []string{"metadata", "annotations"}, boundByController)
	if claim := field.GetMap(object, "spec", "claimRef"); claim != nil {
		resetClaimRef(claim, v, run)
	}
}

// resetClaimRef makes a claimRef stand for whichever claim comes under its name.
func resetClaimRef(claim map[string]any, v volumeInfo, run *restoreaction.RestoreContext) {
	delete(claim, "uid")
	delete(claim, "resourceVersion")
	if v.namespace != "" {
		claim["namespace"] = run.MapNamespace(v.namespace)
	}
}
