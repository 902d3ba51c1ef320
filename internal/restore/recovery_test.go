// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_PanicOfAnObject uses an action that panics for one object of several
// kinds: it fails, and all others are restored.
func TestRestoreObjects_PanicOfAnObject(t *testing.T) {
	for _, kind := range []string{"ConfigMap", "Namespace", "CustomResourceDefinition"} {
		t.Run(kind, func(t *testing.T) {
			bad := func(item *itemaction.RestoreItem) bool {
				return item.Archived.GetKind() == kind && strings.Contains(item.Archived.GetName(), "bad")
			}
			panics := &plugged{name: "panics", of: []string{"configmaps", "namespaces", "customresourcedefinitions.apiextensions.k8s.io"}}
			panics.execute = func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
				item.Object.SetNamespace(item.Archived.GetNamespace())
				if bad(item) {
					panic("boom")
				}
				return itemaction.Result{}, nil
			}
			c := newTarget(t, restore.Options{Actions: func() []itemaction.RestoreAction { return []itemaction.RestoreAction{panics} }})
			ns, group := "panic-"+strings.ToLower(kind), "bad."+strings.ToLower(kind)+".example.org"
			objects := []*unstructured.Unstructured{
				obj(t, "v1", "Namespace", "", ns, ""), obj(t, "v1", "Namespace", "", ns+"-bad", ""), widgets(t, group, "v1"),
				configMap(t, ns, "bad", "x"), configMap(t, ns, "good", "x"), configMap(t, ns, "fine", "x"),
			}
			result := c.run(restore.Request{Archive: spool(t, objects), RestoreUID: "u"})
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) - 1, restore.Failed: 1})
			if got := messages(result); !strings.Contains(got, "internal error: boom; this is a fault of Grapnel") || strings.Contains(got, ".go:") {
				t.Errorf("messages:\n%s", got)
			}
		})
	}
}

// TestRestoreObjects_PanicOfAPlugin lets the code that calls plugins panic.
func TestRestoreObjects_PanicOfAPlugin(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "panic-plugin"
	acts := &plugged{name: "acts", of: []string{"configmaps"}, only: func(_ string, labels map[string]string) bool {
		if labels["bad"] != "" {
			panic("boom")
		}
		return true
	}}
	objects := []*unstructured.Unstructured{configMap(t, ns, "bad", "x"), configMap(t, ns, "good", "x")}
	objects[0].SetLabels(map[string]string{"bad": "true"})
	result := c.run(restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{acts}})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 1})
	wantMessages(t, result, "error "+ns+`: configmaps "`+ns+`/bad": internal error: boom`)

	acts.choose = func(itemaction.ResourceResolver) error { panic("boom") }
	_, err := c.engine.RestoreObjects(t.Context(), restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{acts}})
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
}

// TestRestoreObjects_PanicOfTheRun is about a panic outside of an object: the run ends with
// an error.
func TestRestoreObjects_PanicOfTheRun(t *testing.T) {
	c := newTarget(t, restore.Options{})
	_, err := c.engine.RestoreObjects(t.Context(), restore.Request{
		Archive:  spool(t, []*unstructured.Unstructured{configMap(t, "panic-run", "c", "x")}),
		Progress: func(int, int) { panic("boom") },
	})
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
}
