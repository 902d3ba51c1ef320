// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var volumes = schema.GroupResource{Resource: "persistentvolumes"}

func TestPVCAction_Execute(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		json   string
		want   []itemaction.RelatedItem
		broken bool
	}{
		"bound":                            {json: `{"spec":{"volumeName":"pv-1","storageClassName":"fast"},"status":{"phase":"Bound"}}`, want: []itemaction.RelatedItem{{Resource: volumes, Name: "pv-1"}}},
		"pending":                          {json: `{"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}`},
		"a volume that was asked for":      {json: `{"spec":{"volumeName":"pv-2"},"status":{"phase":"Pending"}}`, want: []itemaction.RelatedItem{{Resource: volumes, Name: "pv-2"}}},
		"without a spec":                   {json: `{"metadata":{"name":"data"}}`},
		"a volume named in another place":  {json: `{"status":{"volumeName":"pv-3"},"volumeName":"pv-4"}`},
		"half of the object":               {json: `{"spec":{"volumeName":`, broken: true},
		"something else than a volumeName": {json: `{"spec":{"volumeName":{"a":1}}}`, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := action.NewPVCAction().Execute(t.Context(), itemaction.BackupItem{Namespace: "shop", Name: "data", JSON: []byte(tc.json)})
			if (err != nil) != tc.broken {
				t.Errorf("error %v, want one: %v", err, tc.broken)
			}
			if diff := cmp.Diff(itemaction.Result{RelatedItems: tc.want}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPVCAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{"persistentvolumeclaims": true, "persistentvolumeclaims.example.com": false, "persistentvolumes": false, "pods": false} {
		if got := action.NewPVCAction().AppliesTo(schema.ParseGroupResource(resource)); got != want {
			t.Errorf("AppliesTo(%s) = %v, want %v", resource, got, want)
		}
	}
	if diff := cmp.Diff([]schema.GroupResource{volumes}, action.NewPVCAction().RelatedResources()); diff != "" {
		t.Errorf("Adds (-want +got):\n%s", diff)
	}
}
