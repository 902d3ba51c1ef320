// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	schedules = "schedules"
	locations = "backupstoragelocations"
)

// suspendFields has the name of the field that suspends a Schedule, by API group.
var suspendFields = map[string]string{"grapnel.dev": "suspend", "velero.io": "paused"}

// AffectedResources returns the resources that the action handles.
func AffectedResources() []schema.GroupResource {
	var all []schema.GroupResource
	for group := range suspendFields {
		all = append(all, schema.GroupResource{Group: group, Resource: schedules}, schema.GroupResource{Group: group, Resource: locations})
	}
	return all
}

// StandbyAction restores Schedules suspended and storage locations read-only, unless the
// cluster takes over from the one that was backed up. Otherwise a copy of a cluster would
// write to the buckets of the original, and its Schedules would create backups of the same
// names in the same seconds. Those of Velero are treated the same, because Velero may run
// in the restored cluster.
type StandbyAction struct{}

var _ itemaction.RestoreAction = StandbyAction{}

// NewStandbyAction returns the action.
func NewStandbyAction() StandbyAction { return StandbyAction{} }

// Name implements itemaction.RestoreAction.
func (StandbyAction) Name() string { return "grapnel.dev/standby" }

// AppliesTo implements itemaction.RestoreAction.
func (StandbyAction) AppliesTo(resource schema.GroupResource) bool {
	return slices.Contains(AffectedResources(), resource)
}

// Execute implements itemaction.RestoreAction.
func (StandbyAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	spec := GetMap(item.Object.Object, "spec")
	if item.Restore.TakeOver || spec == nil {
		return itemaction.Result{}, nil
	}
	if item.Resource.Resource == schedules {
		field := suspendFields[item.Resource.Group]
		if spec[field] == true {
			return itemaction.Result{}, nil
		}
		spec[field] = true
		return itemaction.Result{Warnings: []string{"it was restored suspended, because the cluster that was backed up may still run it: " +
			"set spec." + field + " to false here if this cluster takes over, or restore with takeOver"}}, nil
	}
	if spec["accessMode"] == "ReadOnly" {
		return itemaction.Result{}, nil
	}
	spec["accessMode"] = "ReadOnly"
	return itemaction.Result{Warnings: []string{"it was restored with accessMode ReadOnly, because the cluster that was backed up may still write " +
		"to it: set spec.accessMode to ReadWrite here if this cluster takes over, or restore with takeOver"}}, nil
}
