// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestCallActions_MultipleVersions: an object is passed on once, as it is stored without a version if it is.
func TestCallActions_MultipleVersions(t *testing.T) {
	t.Parallel()
	other := func(version, name string) entry {
		e := pod(name)
		e.id.Version, e.id.Preferred = version, false
		e.labels = `"version":"` + version + `"`
		return e
	}
	for name, tc := range map[string]struct {
		entries []entry
		shown   []string
		labels  string
	}{
		"other version first":  {[]entry{other("v2", "web"), pod("web")}, []string{"web"}, `"app":"web"`},
		"other version later":  {[]entry{pod("web"), other("v2", "web")}, []string{"web"}, `"app":"web"`},
		"other versions alone": {[]entry{other("v2", "web"), other("v3", "web"), other("v2", "db")}, []string{"web", "db"}, `"version":"v2"`},
		"one of another version among others": {
			[]entry{pod("web"), other("v2", "db"), pod("cache")}, []string{"web", "db", "cache"}, `"app":"cache"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := &fake{}
			store := archiveOwnership(t, pack(t, tc.entries...))
			if _, err := worker(t).CallActions(t.Context(), storage.New(store, ""), request(action)); err != nil {
				t.Fatal(err)
			}
			wantShown(t, action, tc.shown...)
			if !strings.Contains(string(action.last.object), tc.labels) {
				t.Errorf("the action saw %s, want %s", action.last.object, tc.labels)
			}
		})
	}
}

// TestCallActions_InvalidObjects has objects that are not what their path says. They are passed to no action.
func TestCallActions_InvalidObjects(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ content, want string }{
		"no JSON":           {"nonsense", "is not a Kubernetes object"},
		"another name":      {`{"metadata":{"name":"db","namespace":"shop"}}`, "is a different object"},
		"another namespace": {`{"metadata":{"name":"web","namespace":"kube-system"}}`, "is a different object"},
		"two names":         {`{"metadata":{"name":"web","name":"db","namespace":"shop"}}`, "is not a Kubernetes object"},
		"labels of numbers": {`{"metadata":{"name":"web","namespace":"shop","labels":{"a":1}}}`, "is not a Kubernetes object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := pod("web")
				bad.content = tc.content
				// The second round must not report it again.
				action := &fake{execute: fails(errFails, "db", 1)}
				store := archiveOwnership(t, pack(t, bad, pod("db")))
				result, err := destroy(t.Context(), worker(t), store, request(action))
				if err != nil {
					t.Fatal(err)
				}
				wantShown(t, action, "db", "db")
				wantLeft(t, result.Leftovers, "for pods shop/web, which they did not receive: it "+tc.want)
				wantNothing(t, store)
			})
		})
	}
}

// TestCallActions_ManyInvalidObjects: each counts once, regardless of the number of rounds and actions
// that encounter it.
func TestCallActions_ManyInvalidObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var entries []entry
		for i := range 70 {
			bad := pod(fmt.Sprint("web-", i))
			bad.content = "nonsense"
			entries = append(entries, bad)
		}
		late := &fake{name: "example.io/late", applies: failsOnce}
		result, err := worker(t).CallActions(t.Context(), storage.New(archiveOwnership(t, pack(t, entries...)), ""), request(&fake{}, late))
		if err != nil {
			t.Fatal(err)
		}
		if last := result.Leftovers[len(result.Leftovers)-1]; last != "and 7 more" {
			t.Errorf("%d entries, the last is %q", len(result.Leftovers), last)
		}
	})
}

// TestCallActions_ResourceNames: resources that the cluster does not serve any more are found in the archive.
func TestCallActions_ResourceNames(t *testing.T) {
	t.Parallel()
	crd := entry{id: archive.Identity{Group: "shop.example.io", Version: "v1", Resource: "carts", Preferred: true, Name: "c"}}
	for name, tc := range map[string]struct {
		named string
		want  []string
	}{
		"full name": {"carts.shop.example.io", []string{"c"}}, "plural": {"carts", []string{"c"}}, "part of the group": {"carts.shop", []string{"c"}},
		"what the cluster calls it": {"po", []string{"web"}}, "unknown": {"nodes", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, action := worker(t), &fake{selector: item.Selector{IncludedResources: []string{tc.named}}}
			j.Names = served
			if _, err := j.CallActions(t.Context(), storage.New(archiveOwnership(t, pack(t, crd, pod("web"))), ""), request(action)); err != nil {
				t.Fatal(err)
			}
			wantShown(t, action, tc.want...)
		})
	}
}

// served is a cluster that serves pods.
func served(context.Context) (itemaction.ResourceResolver, error) { return pods{}, nil }

type pods struct{}

func (pods) Resolve(name string) (schema.GroupResource, bool) {
	return schema.GroupResource{Resource: "pods"}, name == "pods" || name == "po"
}
