// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func item(resource, group string) itemaction.BackupItem {
	return itemaction.BackupItem{
		Resource:  schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		Namespace: "shop", Name: "a", JSON: []byte(`{}`),
	}
}

// TestCRDAction_Execute returns the definition of each resource once: by resource and group,
// as definitions are named.
func TestCRDAction_Execute(t *testing.T) {
	t.Parallel()
	a := action.NewCRDAction()
	definitions := a.RelatedResources()
	if len(definitions) != 1 || definitions[0].String() != "customresourcedefinitions.apiextensions.k8s.io" {
		t.Fatalf("Adds is %v", definitions)
	}
	for _, step := range []struct {
		item itemaction.BackupItem
		want string
	}{
		{item("widgets", "example.com"), "widgets.example.com"},
		{item("widgets", "example.com"), ""},
		{item("widgets", "other.example.com"), "widgets.other.example.com"},
		{item("gadgets", "example.com"), "gadgets.example.com"},
		{item("gadgets", "example.com"), ""},
	} {
		var want itemaction.Result
		if step.want != "" {
			want.RelatedItems = []itemaction.RelatedItem{{Resource: definitions[0], Name: step.want, Optional: true}}
		}
		got, err := a.Execute(t.Context(), step.item)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.item.Resource, diff)
		}
	}
	// Another version of a resource has the same definition; another run has its own state.
	again := item("widgets", "example.com")
	again.Resource.Version = "v2"
	if got, err := a.Execute(t.Context(), again); err != nil || len(got.RelatedItems) != 0 {
		t.Errorf("another version: %+v, %v", got, err)
	}
	if got, err := action.NewCRDAction().Execute(t.Context(), again); err != nil || len(got.RelatedItems) != 1 {
		t.Errorf("another run: %+v, %v", got, err)
	}
}

func TestCRDAction_ExecuteConcurrently(t *testing.T) {
	t.Parallel()
	a := action.NewCRDAction()
	var named atomic.Int32
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			got, err := a.Execute(t.Context(), item("widgets", "example.com"))
			if err != nil {
				t.Error(err)
			}
			named.Add(int32(len(got.RelatedItems)))
		})
	}
	group.Wait()
	if named.Load() != 1 {
		t.Errorf("the definition was named %d times, want once", named.Load())
	}
}

func TestCRDAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{
		"pods": false, "deployments.apps": false, "ingresses.networking.k8s.io": false, "poddisruptionbudgets.policy": false,
		"customresourcedefinitions.apiextensions.k8s.io": false,
		"widgets.example.com":                            true,
		"volumesnapshots.snapshot.storage.k8s.io":        true,
		"gateways.gateway.networking.k8s.io":             true,
		"nodes.metrics.k8s.io":                           true, // aggregated; its definition is optional
	} {
		if got := action.NewCRDAction().AppliesTo(schema.ParseGroupResource(resource)); got != want {
			t.Errorf("AppliesTo(%s) = %v, want %v", resource, got, want)
		}
	}
	// kube-apiserver serves what client-go knows, also in later versions.
	for _, version := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if action.NewCRDAction().AppliesTo(schema.GroupResource{Group: version.Group, Resource: "things"}) {
			t.Errorf("the group %s is taken for one of custom resources", version.Group)
		}
	}
}
