// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreStatus_CustomResources restores the status with and without a subresource for it, and where
// no object is valid without one.
func TestRestoreStatus_CustomResources(t *testing.T) {
	type kindOfStatus struct {
		subresource, required bool
		filter                *restore.StatusFilter
		restored              bool
		patches               int
		message               string
	}
	cases := map[string]kindOfStatus{
		"subresource":               {subresource: true, filter: &restore.StatusFilter{}, restored: true, patches: 1},
		"no-subresource":            {filter: &restore.StatusFilter{}, restored: true, patches: 2},
		"not-wanted":                {subresource: true},
		"not-wanted-no-subresource": {},
		"required": {
			required: true, restored: true,
			message: "warning status-required: |its definition requires a status: it was restored with the one it had",
		},
	}
	c := newTarget(t, restore.Options{})
	for name, tc := range cases {
		definition := widgets(t, name+".status.example.org", "v1")
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		version := versions[0].(map[string]any)
		if tc.subresource {
			version["subresources"] = map[string]any{"status": map[string]any{}}
		}
		if tc.required {
			_ = unstructured.SetNestedStringSlice(version, []string{"status"}, "schema", "openAPIV3Schema", "required")
			_ = unstructured.SetNestedMap(version, map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				"schema", "openAPIV3Schema", "properties", "status")
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		c.create(definition)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			group, ns := name+".status.example.org", "status-"+name
			o := widget(t, group, "v1", ns, "w")
			c.awaitServed(o)
			o.Object["status"] = map[string]any{"ready": true, "seen": int64(7)}
			request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{o}), RestoreStatus: tc.filter, RestoreUID: "u"}
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
			if tc.message == "" {
				wantMessages(t, result)
			} else {
				wantMessages(t, result, tc.message)
			}
			if patches := c.wire.requests("PATCH", "/widgets/"); len(patches) != tc.patches {
				t.Errorf("PATCHes: %v", patches)
			}
			want := o.Object["status"]
			if !tc.restored {
				want = nil
			}
			if diff := cmp.Diff(want, c.get(o).Object["status"]); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			request.RestoreUID, request.RestoreStatus = "v", nil
			if again := listOf(c.run(request))[group+"/v1/Widget"]; !slices.Equal(again, []string{ns + "/w(unchanged)"}) {
				t.Errorf("the second restore says %v", again)
			}
		})
	}
}
