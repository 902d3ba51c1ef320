// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// asks is an action that requests other objects before each ConfigMap.
type asks []itemaction.RelatedItem

func (asks) Name() string                           { return "test/asks" }
func (asks) AppliesTo(gr schema.GroupResource) bool { return gr.Resource == "configmaps" }
func (a asks) Execute(context.Context, *itemaction.RestoreItem) (itemaction.Result, error) {
	return itemaction.Result{RelatedItems: a}, nil
}

func ref(resource, namespace, name string) itemaction.RelatedItem {
	return itemaction.RelatedItem{Resource: schema.ParseGroupResource(resource), Namespace: namespace, Name: name}
}

// TestRestoreRelatedItems_Missing is a warning of the object that needs it, unless it was
// excluded deliberately.
func TestRestoreRelatedItems_Missing(t *testing.T) {
	const ns = "needs"
	c := newTarget(t, restore.Options{Actions: func() []itemaction.RestoreAction {
		return []itemaction.RestoreAction{asks{
			ref("secrets", ns, "there"), ref("secrets", ns, "missing"), ref("secrets", ns+"-excluded", "there"),
			ref("services", ns, "excluded"), ref("pods", "", "nowhere"), ref("widgets.needs.example.org", ns, "unserved"),
			ref("events", ns, "never"), ref("configmaps", ns, "self"),
		}}
	}})
	objects := []*unstructured.Unstructured{
		configMap(t, ns, "self", "x"), obj(t, "v1", "Secret", ns, "there", `{"type":"Opaque"}`), obj(t, "v1", "Secret", ns+"-excluded", "there", ""),
		obj(t, "v1", "Service", ns, "excluded", `{"spec":{"ports":[{"port":80}]}}`), obj(t, "v1", "Event", ns, "never", ""),
		widget(t, "needs.example.org", "v1", ns, "unserved"),
	}
	request := restore.Request{
		Archive: spool(t, objects), DryRun: true,
		Selection: selection.Spec{ExcludedNamespaces: []string{ns + "-excluded"}, ExcludedResources: []string{"services"}},
	}
	want := []string{
		`warning needs: configmaps "needs/self": it needs secrets "needs/missing", which is not in the backup`,
		`warning needs: configmaps "needs/self": it needs pods "nowhere", which is not in the backup`,
		`warning needs: configmaps "needs/self": it needs widgets.needs.example.org "needs/unserved", which the cluster does not serve`,
		`error run: 1 object of widgets.needs.example.org is not restored`,
	}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3, restore.Failed: 1, restore.Skipped: 1})
		wantMessages(t, result, want...)
	}
	// Existing objects need nothing.
	wantMessages(t, c.run(request), want[3:]...)
}

// TestRestoreRelatedItems_ChosenVersion restores related objects in the chosen version, also where they are restored for the
// sake of another object only.
func TestRestoreRelatedItems_ChosenVersion(t *testing.T) {
	const ns, group = "needed-version", "needed.example.org"
	c := newTarget(t, restore.Options{Actions: func() []itemaction.RestoreAction {
		return []itemaction.RestoreAction{asks{ref("widgets."+group, ns, "w")}}
	}})
	c.create(widgets(t, group, "v2beta1", "v2"))
	c.awaitServed(widget(t, group, "v2", ns, "w"))
	picked := configMap(t, ns, "picked", "x")
	picked.SetLabels(map[string]string{"pick": "me"})
	result := c.run(restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{
			picked, widget(t, group, "v1", ns, "w"), widget(t, group, "v2", ns, "w"),
		}, schema.GroupVersion{Group: group, Version: "v2"}),
		Selection:   selection.Spec{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "me"}}},
		UseVersions: true,
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
	wantMessages(t, result)
	if from, _, _ := unstructured.NestedString(c.get(widget(t, group, "v2", ns, "w")).Object, "spec", "from"); from != "v2" {
		t.Errorf("restored from version %q", from)
	}
	if posts := c.wire.requests("POST", "/"); len(posts) != 3 || len(c.wire.requests("POST", "/widgets")) != 1 {
		t.Errorf("POSTs: %v", posts)
	}
}
