// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package itemaction

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRestoreItem_ArchivedController checks that a malformed entry hides no controller.
func TestRestoreItem_ArchivedController(t *testing.T) {
	t.Parallel()
	controller := map[string]any{"controller": true, "kind": "ReplicaSet", "name": "web-1"}
	for name, tc := range map[string]struct {
		references any
		want       Owner
	}{
		"no owners":                    {},
		"an owner, no controller":      {references: []any{map[string]any{"kind": "ReplicaSet", "name": "web-1"}}},
		"a controller":                 {references: []any{controller}, want: Owner{Kind: "ReplicaSet", Name: "web-1"}},
		"a controller after a text":    {references: []any{"text", controller}, want: Owner{Kind: "ReplicaSet", Name: "web-1"}},
		"a list that is a text":        {references: "text"},
		"a controller of wrong values": {references: []any{map[string]any{"controller": true, "kind": int64(7), "name": nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metadata := map[string]any{"name": "pod-a"}
			if tc.references != nil {
				metadata["ownerReferences"] = tc.references
			}
			item := &RestoreItem{Archived: &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}}
			if got := item.ArchivedController(); got != tc.want {
				t.Errorf("ArchivedController returns %+v, want %+v", got, tc.want)
			}
		})
	}
}
