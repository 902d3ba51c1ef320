// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestRebindVolume(t *testing.T) {
	archived := bound("Retain", "Bound")
	for name, tc := range map[string]struct {
		existing, archived string
		run                itemaction.RestoreContext
		namespace          string // of the claim for which it is reserved, empty if it is not changed
	}{
		"the namespace was deleted": {
			existing: bound("Retain", "Released"), archived: archived, namespace: "a",
		},
		"the namespace was deleted and is restored under another name": {
			existing: bound("Retain", "Released"), archived: archived, run: mapped, namespace: "b",
		},
		"and was deleted again": {
			existing: strings.Replace(bound("Retain", "Released"), `"namespace":"a"`, `"namespace":"b"`, 1),
			archived: archived, run: mapped, namespace: "b",
		},
		"the claim is still there": {existing: archived, archived: archived},
		"it waits already":         {existing: waiting("Retain", "a"), archived: archived},
		"it is to be deleted":      {existing: bound("Delete", "Released"), archived: archived},
		"it served another claim": {
			existing: strings.Replace(bound("Retain", "Released"), `"name":"data"`, `"name":"other"`, 1), archived: archived,
		},
		"it served another namespace": {
			existing: strings.Replace(bound("Retain", "Released"), `"namespace":"a"`, `"namespace":"x"`, 1), archived: archived,
		},
		"it is other storage": {
			existing: strings.Replace(bound("Retain", "Released"), `"h"`, `"other"`, 1), archived: archived,
		},
		"the archived one was not bound": {
			existing: bound("Retain", "Released"), archived: bound("Retain", "Released"),
		},
		"another size is no other storage": {
			existing: strings.Replace(bound("Retain", "Released"), "1Gi", "2Gi", 1), archived: archived, namespace: "a",
		},
		"nonsense": {existing: `{"spec":7}`, archived: `{"metadata":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			existing := ParseObject(t, tc.existing)
			got, rebound := RebindVolume(existing, ParseObject(t, tc.archived), &tc.run)
			if diff := cmp.Diff(ParseObject(t, tc.existing), existing); diff != "" {
				t.Errorf("the existing volume was changed (-before +after):\n%s", diff)
			}
			if rebound != (tc.namespace != "") {
				t.Fatalf("rebound is %v, want %v", rebound, !rebound)
			}
			if !rebound {
				return
			}
			want := ParseObject(t, tc.existing)
			if err := unstructured.SetNestedMap(want.Object, map[string]any{
				"kind": "PersistentVolumeClaim", "namespace": tc.namespace, "name": "data",
			}, "spec", "claimRef"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}
