// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func claim(name string, optional bool) itemaction.RelatedItem {
	return itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "persistentvolumeclaims"}, Namespace: "shop", Name: name, Optional: optional}
}

func class(name string) itemaction.RelatedItem {
	return itemaction.RelatedItem{Resource: schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, Name: name}
}

func TestPodAction_Execute(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		json   string
		want   []itemaction.RelatedItem
		broken bool
	}{
		"nothing": {json: `{"spec":{"containers":[{"name":"c"}]}}`},
		"no spec": {json: `{}`},
		"claims": {
			json: `{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}},{"name":"w","persistentVolumeClaim":{"claimName":"logs","readOnly":true}}]}}`,
			want: []itemaction.RelatedItem{claim("data", false), claim("logs", false)},
		},
		"other volumes": {json: `{"spec":{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","configMap":{"name":"data"}},{"name":"c","secret":{"secretName":"s"}},{"name":"d","hostPath":{"path":"/"}}]}}`},
		"an ephemeral volume": {
			json: `{"spec":{"volumes":[{"name":"scratch","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"]}}}}]}}`,
			want: []itemaction.RelatedItem{claim("web-0-scratch", true)},
		},
		"a priority": {
			json: `{"spec":{"priorityClassName":"high","priority":1000,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]}}`,
			want: []itemaction.RelatedItem{claim("data", false), class("high")},
		},
		"a claim without a name":  {json: `{"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{}}]}}`},
		"volumes that are null":   {json: `{"spec":{"volumes":null,"priorityClassName":""}}`},
		"half of the object":      {json: `{"spec":{"volumes":[`, broken: true},
		"volumes of another kind": {json: `{"spec":{"volumes":"many"}}`, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := action.NewPodAction().Execute(t.Context(), itemaction.BackupItem{Namespace: "shop", Name: "web-0", JSON: []byte(tc.json)})
			if (err != nil) != tc.broken {
				t.Errorf("error %v, want one: %v", err, tc.broken)
			}
			if diff := cmp.Diff(itemaction.Result{RelatedItems: tc.want}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			for _, ref := range got.RelatedItems {
				if !slices.Contains(action.NewPodAction().RelatedResources(), ref.Resource) {
					t.Errorf("it names %s, which Adds does not: the engine would leave the action out", ref.Resource)
				}
			}
		})
	}
}

func TestPodAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{"pods": true, "pods.metrics.k8s.io": false, "deployments.apps": false} {
		if got := action.NewPodAction().AppliesTo(schema.ParseGroupResource(resource)); got != want {
			t.Errorf("AppliesTo(%s) = %v, want %v", resource, got, want)
		}
	}
}
