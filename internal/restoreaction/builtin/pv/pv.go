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
	// attached begins the finalizers of external attachers. They are set while
	// a volume is attached, and would keep one from ever being deleted in a
	// cluster without that attacher.
	attached = "external-attacher/"
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

// volume is what decides about a PersistentVolume.
type volume struct {
	namespace, claim string // of the claim, empty if there is none
	bound, released  bool
	policy           string
}

// read returns what an archived volume says about itself.
func read(object map[string]any) volume {
	claim := field.Map(object, "spec", "claimRef")
	phase := field.Get[string](object, "status", "phase")
	v := volume{
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

// retained reports whether the storage outlives the object. Nothing said means
// Retain.
func (v volume) retained() bool { return v.policy == "Retain" || v.policy == "" }

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	v := read(item.Archived.Object)
	var result restoreaction.Result
	switch {
	case v.released && !v.retained():
		result.Skip = "it was released, and its reclaim policy " + v.policy + " gave its storage up"
		return result, nil
	case v.bound && item.Run.VolumeData(v.namespace, v.claim):
		result.Skip = "its claim gets a new volume with the data from the backup"
		return result, nil
	case v.bound && !v.retained():
		return result, &restoreaction.CreateError{Reason: fmt.Sprintf(
			"the backup does not hold the data of this volume, and with its reclaim policy %s its storage goes when "+
				"claim %s/%s does: bring the data back by other means and create the volume under this name, "+
				"or delete the restored claim to start with an empty one", v.policy, v.namespace, v.claim)}
	case v.bound:
		result.Warnings = []string{"the backup does not hold the data of this volume: it names the storage that it had, " +
			"and its claim gets what is there now"}
	}
	reset(item.Object.Object, v, item.Run)
	return result, nil
}

// reset makes a volume wait for the restored claim.
func reset(object map[string]any, v volume, run *restoreaction.Run) {
	field.Filter(object, func(entry any) bool {
		name, _ := entry.(string)
		return strings.HasPrefix(name, attached)
	}, "metadata", "finalizers")
	if v.released {
		// With the UID of its old claim it stays released. Without, the next
		// claim of that name would get somebody's data.
		return
	}
	field.Prune(object, []string{"metadata", "annotations"}, boundByController)
	if claim := field.Map(object, "spec", "claimRef"); claim != nil {
		reserve(claim, v, run)
	}
}

// reserve makes a claimRef stand for whichever claim comes under its name.
func reserve(claim map[string]any, v volume, run *restoreaction.Run) {
	delete(claim, "uid")
	delete(claim, "resourceVersion")
	if v.namespace != "" {
		claim["namespace"] = run.Namespace(v.namespace)
	}
}
