// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// converts is an action that converts objects of a resource, by their names:
// "apiVersion kind".
func converts(resource string, into map[string]string) *plugged {
	return &plugged{name: "converts", of: []string{resource}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		if apiVersion, kind, ok := strings.Cut(into[item.Archived.GetName()], " "); ok {
			delete(item.Object.Object, "spec")
			item.Object.SetAPIVersion(apiVersion)
			item.Object.SetKind(kind)
		}
		return itemaction.Result{}, nil
	}}
}

// TestRetargetItem converts objects to objects that the cluster serves, even if it does not serve
// them as they were archived; each error concerns one object.
func TestRetargetItem(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped, group = "plug-convert", "plug-convert-mapped", "plug-convert.example.org"
	acts := converts("widgets."+group, map[string]string{
		"map": "v1 ConfigMap", "unheard": "example.org/v1 Gadget", "wide": "rbac.authorization.k8s.io/v1 ClusterRole",
		"event": "v1 Event", "taken": "v1 ConfigMap", "bad": "a/b/c ConfigMap", "again": "v1 ConfigMap",
	})
	objects := []*unstructured.Unstructured{configMap(t, ns, "taken", "of the backup")}
	for _, name := range []string{"map", "unheard", "wide", "event", "taken", "bad", "left"} {
		objects = append(objects, widget(t, group, "v1", ns, name))
	}
	request := restore.Request{
		Archive: spool(t, objects), NamespaceMapping: map[string]string{ns: mapped}, Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u",
	}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3, restore.Failed: 6})
	at := "error " + mapped + `: widgets.` + group + ` "` + mapped + "/"
	const action = `restore action converts: made `
	wantMessages(t, result,
		at+`unheard": `+action+`"example.org/v1/Gadget" of "`+group+`/v1/Widget", which the cluster does not serve`,
		at+`bad": `+action+`"a/b/c/ConfigMap"|which the cluster does not serve`,
		at+`wide": `+action+`"rbac.authorization.k8s.io/v1/ClusterRole"|one has a namespace`,
		at+`event": `+action+`"v1/Event"|never restored that way`,
		at+`taken": `+action+`"v1/ConfigMap"|the backup has another object that becomes configmaps "`+mapped+`/taken"`,
		"error run: 1 object of widgets."+group+" is not restored: the cluster does not serve them")
	if got := data(c.get(configMap(t, mapped, "taken", "")))["key"]; got != "of the backup" {
		t.Errorf("the other object became %q", got)
	}
	c.get(configMap(t, mapped, "map", ""))
	if diff := cmp.Diff([]string{mapped + "/map(created)", mapped + "/taken(created)"}, listOf(result)["v1/ConfigMap"]); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	// It is known again, in the version of the cluster.
	if again := c.run(request); again.Counts[restore.Created] != 3 {
		t.Errorf("again: %v", again.Counts)
	}
}

// TestRetargetItem_NotConverted: the results of the action are reported although the object is
// not restored, and a dry run names the action that might convert it.
func TestRetargetItem_NotConverted(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "plug-not-converted", "plug-not-converted.example.org"
	acts := &plugged{name: "acts", of: []string{"widgets." + group}, execute: func(context.Context, *itemaction.RestoreItem) (itemaction.Result, error) {
		return itemaction.Result{
			Operation: &itemaction.Operation{ID: "op-1"}, Warnings: []string{"beware"}, ReadyTimeout: time.Millisecond, WaitForRelatedItems: true,
		}, nil
	}, ready: func(*itemaction.RestoreItem, []itemaction.RelatedItem) (bool, error) { return false, nil }}
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{widget(t, group, "v1", ns, "w")}), Actions: []itemaction.RestorePluginAction{acts}, DryRun: true,
	}
	const refused = "error run: 1 object of widgets." + group + " is not restored: the cluster does not serve them"
	wantMessages(t, c.run(request), refused, "warning run: |restore action acts|is not called in a dry run")
	request.DryRun = false
	about := ns + ": widgets." + group + ` "` + ns + `/w": `
	wantMessages(t, c.run(request), refused, "warning "+about+"beware", "error "+about+`|the operation "op-1"`, "error "+about+"|were not ready after 1ms")
}

// TestRetargetItem_Versions converts objects of a resource that is served in another one.
func TestRetargetItem_Versions(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "plug-version", "plug-version.example.org"
	c.create(widgets(t, group, "v2"))
	c.awaitServed(widget(t, group, "v2", ns, "w"))
	acts := converts("widgets."+group, map[string]string{"w": group + "/v2 Widget"})
	result := c.run(restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{widget(t, group, "v1", ns, "w"), widget(t, group, "v1", ns, "left")}),
		Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u",
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 1})
	wantMessages(t, result, "error run: 1 object of widgets."+group+" is not restored: the cluster does not serve version v1 of them")
	c.get(widget(t, group, "v2", ns, "w"))
}

// TestRetargetItem_Conflict: the second is an error, and does not overwrite the first.
func TestRetargetItem_Conflict(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, one, other = "plug-one", "plug-one.example.org", "plug-other.example.org"
	acts := converts("widgets."+one, map[string]string{"w": "v1 ConfigMap"})
	acts.of = append(acts.of, "widgets."+other)
	result := c.run(restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{widget(t, one, "v1", ns, "w"), widget(t, other, "v1", ns, "w")}),
		Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u",
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 1})
	wantMessages(t, result, "error "+ns+": |the backup has another object that becomes configmaps")
}
