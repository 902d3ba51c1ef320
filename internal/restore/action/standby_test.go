// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestStandbyAction_Execute(t *testing.T) {
	schedule := schema.GroupVersionResource{Group: "grapnel.dev", Version: "v1alpha1", Resource: schedules}
	location := schema.GroupVersionResource{Group: "grapnel.dev", Version: "v1alpha1", Resource: locations}
	suspended := func(field string) itemaction.Result {
		return itemaction.Result{Warnings: []string{"it was restored suspended, because the cluster that was backed up may still run it: " +
			"set spec." + field + " to false here if this cluster takes over, or restore with takeOver"}}
	}
	readOnly := itemaction.Result{Warnings: []string{"it was restored with accessMode ReadOnly, because the cluster that was backed up may still write " +
		"to it: set spec.accessMode to ReadWrite here if this cluster takes over, or restore with takeOver"}}
	takesOver := itemaction.RestoreContext{TakeOver: true}
	const active, inactive = `{"metadata":{"name":"n"},"spec":{"schedule":"@daily"}}`, `{"metadata":{"name":"n"},"spec":{"schedule":"@daily","suspend":true}}`
	const inactiveVelero = `{"metadata":{"name":"n"},"spec":{"schedule":"@daily","paused":true}}`
	const writable, readable = `{"metadata":{"name":"n"},"spec":{"accessMode":"ReadWrite"}}`, `{"metadata":{"name":"n"},"spec":{"accessMode":"ReadOnly"}}`
	velero := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: resource}
	}
	RunCases(t, NewStandbyAction(), map[string]Case{
		"a Schedule":                       {Resource: schedule, Archived: active, Want: inactive, Result: suspended("suspend")},
		"a suspended Schedule":             {Resource: schedule, Archived: inactive, Want: inactive},
		"a Schedule that is taken over":    {Resource: schedule, Archived: active, Want: active, Restore: takesOver},
		"a location":                       {Resource: location, Archived: writable, Want: readable, Result: readOnly},
		"a location without accessMode":    {Resource: location, Archived: `{"metadata":{"name":"n"},"spec":{"x":1}}`, Want: `{"metadata":{"name":"n"},"spec":{"x":1,"accessMode":"ReadOnly"}}`, Result: readOnly},
		"a read-only location":             {Resource: location, Archived: readable, Want: readable},
		"a location that is taken over":    {Resource: location, Archived: writable, Want: writable, Restore: takesOver},
		"a Schedule of Velero":             {Resource: velero(schedules), Archived: active, Want: inactiveVelero, Result: suspended("paused")},
		"a paused Schedule of Velero":      {Resource: velero(schedules), Archived: inactiveVelero, Want: inactiveVelero},
		"a location of Velero":             {Resource: velero(locations), Archived: writable, Want: readable, Result: readOnly},
		"a Schedule without a spec at all": {Resource: schedule, Archived: `{"metadata":{"name":"n"}}`, Want: `{"metadata":{"name":"n"}}`},
	})
}
