// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// fakeOf is a fakeAction for another kind.
func fakeOf(resource string, execute func(itemaction.BackupItem) (itemaction.Result, error)) itemaction.BackupAction {
	return otherKind{fakeAction{execute}, resource}
}

type otherKind struct {
	fakeAction
	resource string
}

func (o otherKind) AppliesTo(gr schema.GroupResource) bool { return gr.Resource == o.resource }

func TestAddRelatedItems(t *testing.T) {
	all := []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c", "namespaces /shop"}
	for name, tc := range map[string]struct {
		actions  []itemaction.BackupAction
		edit     func(*ArchiveRequest)
		added    []string
		warnings []string
		requests map[string]int // by path
	}{
		"each is fetched once": {
			actions:  []itemaction.BackupAction{naming("configmaps", ref("persistentvolumes", "", "pv-2"), ref("configmaps", "shop", "b"))},
			added:    []string{"persistentvolumes /pv-2"},
			requests: map[string]int{"persistentvolumes/pv-2": 1, "configmaps/b": 0},
		},
		"with the namespace of the object that names them": {
			actions: []itemaction.BackupAction{naming("configmaps", ref("persistentvolumes", "shop", "pv-2"))},
			added:   []string{"persistentvolumes /pv-2"},
		},
		"a cycle ends": {
			actions: []itemaction.BackupAction{
				naming("configmaps", ref("persistentvolumes", "", "pv-1")),
				naming("persistentvolumes", ref("persistentvolumes", "", "pv-2"), ref("persistentvolumes", "", "pv-1"), ref("configmaps", "shop", "a")),
			},
			added:    []string{"persistentvolumes /pv-1", "persistentvolumes /pv-2"},
			requests: map[string]int{"persistentvolumes/pv-1": 1, "persistentvolumes/pv-2": 1},
		},
		"of a Namespace object": {
			actions: []itemaction.BackupAction{naming("namespaces", ref("persistentvolumes", "", "pv-2"))},
			added:   []string{"persistentvolumes /pv-2"},
		},
		"that do not exist": {
			actions: []itemaction.BackupAction{naming("configmaps",
				ref("persistentvolumes", "", "nope"), ref("unheard.of", "shop", "x"), ref("configmaps", "", "a"),
				itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "persistentvolumes"}, Name: "maybe", Optional: true})},
			warnings: []string{
				`configmaps "a", which configmaps shop/a needs, does not exist: the kind has a namespace, and was named with none`,
				`persistentvolumes "nope", which configmaps shop/a needs, does not exist`,
				`unheard.of "shop/x", which configmaps shop/a needs, cannot be archived: the cluster does not serve unheard.of, or it is never archived`,
			},
		},
		"that are excluded": {
			actions: []itemaction.BackupAction{naming("configmaps", ref("pods", "shop", "web-0"), ref("configmaps", "office", "a"),
				ref("configmaps", "shop", "secretive"), ref("persistentvolumes", "", "pv-1"))},
			edit: func(r *ArchiveRequest) { r.Selection.ExcludedClusterScopedResources = []string{"persistentvolumes"} },
		},
		"a must and none": {
			actions: []itemaction.BackupAction{
				naming("configmaps", ref("persistentvolumes", "", "pv-2"), ref("persistentvolumes", "", "nope")),
				naming("configmaps", always("persistentvolumes", "", "pv-2"), always("persistentvolumes", "", "nope")),
			},
			added:    []string{"persistentvolumes /pv-2"},
			requests: map[string]int{"persistentvolumes/pv-2": 1, "persistentvolumes/nope": 1},
			warnings: []string{`persistentvolumes "nope", which configmaps shop/a needs, does not exist`},
		},
		"that are excluded and a must": {
			actions: []itemaction.BackupAction{
				naming("configmaps", ref("configmaps", "shop", "secretive")), // without IgnoreSelection
				naming("configmaps", always("pods", "shop", "web-0"), always("configmaps", "office", "a"),
					always("configmaps", "shop", "secretive"), always("persistentvolumes", "", "pv-1")),
			},
			edit:  func(r *ArchiveRequest) { r.Selection.ExcludedClusterScopedResources = []string{"persistentvolumes"} },
			added: []string{"configmaps office/a", "configmaps shop/secretive", "persistentvolumes /pv-1", "pods shop/web-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := shop(tc.actions...)
			if tc.edit != nil {
				tc.edit(&req)
			}
			api := testCluster()
			result, got := backedUp(t, api, req, Options{ActionWorkers: 1, Actions: func() []itemaction.BackupAction { return nil }})
			if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(all, tc.added))), slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			var warnings []string
			for _, list := range [][]string{result.Results.Warnings.OfRun(), result.Results.Warnings.OfCluster(), result.Results.Warnings.OfNamespace("shop")} {
				warnings = append(warnings, list...)
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if result.Results.ErrorCount > 0 {
				t.Errorf("errors: %+v", result.Results.Errors)
			}
			for path, want := range tc.requests {
				if n := api.requests(path); n != want {
					t.Errorf("%d requests for %s, want %d", n, path, want)
				}
			}
		})
	}
}

func always(resource, namespace, name string) itemaction.RelatedItem {
	out := ref(resource, namespace, name)
	out.IgnoreSelection = true
	return out
}

// Many objects that need the same ones name only a few.
func TestAddRelatedItems_RepeatedRefs(t *testing.T) {
	const size = 10_000
	action := outside{resource: "kind00s", execute: func(context.Context, itemaction.BackupItem) (itemaction.Result, error) {
		refs := make([]itemaction.RelatedItem, size)
		for i := range refs {
			refs[i] = itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "unheard-of"}, Name: fmt.Sprint(i), Optional: true}
		}
		return itemaction.Result{RelatedItems: refs}, nil
	}}
	result, _ := backedUp(t, crowd(1, maxExternalRefs/size+5), ArchiveRequest{Actions: []itemaction.BackupAction{action}}, Options{})
	if result.Results.ErrorCount > 0 {
		t.Errorf("errors: %+v", result.Results.Errors)
	}
}

func TestAddRelatedItems_Limit(t *testing.T) {
	action := outside{resource: "kind00s", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		refs := make([]itemaction.RelatedItem, 10_000)
		for i := range refs {
			refs[i] = itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "unheard-of"}, Name: fmt.Sprint(item.Name, "-", i)}
		}
		return itemaction.Result{RelatedItems: refs}, nil
	}}
	result, _ := backedUp(t, crowd(1, 25), ArchiveRequest{Actions: []itemaction.BackupAction{action}}, Options{})
	if result.Results.WarningCount != maxExternalRefs || result.Results.ErrorCount != 1 {
		t.Errorf("%d warnings and %d errors, want %d and 1", result.Results.WarningCount, result.Results.ErrorCount, maxExternalRefs)
	}
	expectMessage(t, "error", result.Results.Errors, "named more than 200000 objects")
	if result.Items != 26 {
		t.Errorf("%d items, want all 26", result.Items)
	}
}
