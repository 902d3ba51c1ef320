// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_Standby restores Schedules and locations: new ones are inactive, and
// active ones stay active with every policy.
func TestRestoreObjects_Standby(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "standby"
	c.namespace(ns)
	for _, kind := range []string{"Schedule", "BackupStorageLocation"} {
		plural := strings.ToLower(kind) + "s"
		c.create(obj(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+".grapnel.dev", fmt.Sprintf(`{
			"metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved"}},"spec":{"group":"grapnel.dev","scope":"Namespaced",
			"names":{"plural":%q,"singular":%q,"kind":%q},"versions":[{"name":"v1alpha1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
			plural, strings.ToLower(kind), kind)))
	}
	schedule := func(name, cron string) *unstructured.Unstructured {
		return obj(t, "grapnel.dev/v1alpha1", "Schedule", ns, name, fmt.Sprintf(`{"spec":{"schedule":%q}}`, cron))
	}
	location := func(name, bucket string) *unstructured.Unstructured {
		return obj(t, "grapnel.dev/v1alpha1", "BackupStorageLocation", ns, name, fmt.Sprintf(`{"spec":{"accessMode":"ReadWrite","bucket":%q}}`, bucket))
	}
	c.awaitServed(schedule("probe", "x"))
	c.awaitServed(location("probe", "x"))
	spec := func(o *unstructured.Unstructured) map[string]any {
		spec, _, _ := unstructured.NestedMap(c.get(o).Object, "spec")
		return spec
	}
	for _, policy := range []restore.ExistingPolicy{restore.ExistingUpdate, restore.ExistingRecreate} {
		t.Run(string(policy), func(t *testing.T) {
			is := schedule("is-"+string(policy), "@daily")
			before := c.create(is)[0]
			fresh, place := schedule("new-"+string(policy), "@daily"), location("new-"+string(policy), "b")
			request := restore.Request{
				Policy: policy, RestoreUID: "u", Archive: spool(t, []*unstructured.Unstructured{schedule("is-"+string(policy), "@hourly"), fresh, place}),
			}
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Updated: 1})
			wantMessages(t, result, "warning "+ns+": |new-"+string(policy)+"|it was restored suspended",
				"warning "+ns+": |new-"+string(policy)+"|it was restored with accessMode ReadOnly")
			if got := spec(is); got["suspend"] != nil || got["schedule"] != "@hourly" || c.get(is).GetUID() != before.GetUID() {
				t.Errorf("the Schedule that worked has %v", got)
			}
			if got := spec(fresh); got["suspend"] != true {
				t.Errorf("the new Schedule has %v", got)
			}
			if got := spec(place); got["accessMode"] != "ReadOnly" || got["bucket"] != "b" {
				t.Errorf("the new location has %v", got)
			}
			// A rule cannot start what was not told to take over.
			request.RestoreUID = "m"
			request.Modifiers = parseModifiers(t, "- conditions: {groupResource: schedules.grapnel.dev}\n  mergePatches: [{patchData: 'spec: {suspend: false}'}]\n"+
				"- conditions: {groupResource: backupstoragelocations.grapnel.dev}\n  mergePatches: [{patchData: 'spec: {accessMode: ReadWrite}'}]\n")
			wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Unchanged: 3})
			request.Modifiers = nil
			// A second restore changes nothing, and one that takes over starts them.
			request.RestoreUID = "v"
			wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Unchanged: 3})
			request.RestoreUID, request.TakeOver = "w", true
			result = c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Unchanged: 1, restore.Updated: 2})
			wantMessages(t, result)
			if got := spec(place); got["accessMode"] != "ReadWrite" {
				t.Errorf("the location that is taken over has %v", got)
			}
		})
	}
}
