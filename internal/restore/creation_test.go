// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

func TestRestoreObjects_NewNamespace(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "create-new"
	archived := obj(t, "v1", "ConfigMap", ns, "settings", `{"data":{"a":"b"},"metadata":{
		"uid":"9f0c1c5e-0000-4000-8000-000000000000","resourceVersion":"77","generation":3,"creationTimestamp":"2020-01-01T00:00:00Z",
		"labels":{"app":"shop"},"annotations":{"note":"kept"},"finalizers":["example.org/hold"],
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}]}}`)
	objects := []*unstructured.Unstructured{
		obj(t, "v1", "Namespace", "", ns, `{"metadata":{"labels":{"team":"a"},"annotations":{"owner":"b"}}}`),
		archived,
	}
	for i := range 60 {
		objects = append(objects, configMap(t, ns, fmt.Sprintf("more-%d", i), "x"))
	}
	var seen collector
	result := c.run(restore.Request{Archive: spool(t, objects), RestoreUID: "uid-1", Progress: seen.progress})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects)})
	wantMessages(t, result)
	if seen.total != len(objects) || seen.done != len(objects) {
		t.Errorf("progress ended at %d of %d, want %d", seen.done, seen.total, len(objects))
	}

	got := c.get(archived)
	want := map[string]any{
		"labels": map[string]any{
			"app": "shop", "grapnel.dev/backup-name": "nightly", "grapnel.dev/restore-name": "again",
		},
		"annotations": map[string]any{"note": "kept"},
		"finalizers":  []any{"example.org/hold"},
	}
	metadata, _ := got.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if stamp, _ := annotations["grapnel.dev/restored"].(string); !strings.HasPrefix(stamp, "created uid-1 ") {
		t.Errorf("it has the stamp %q", stamp)
	}
	delete(annotations, "grapnel.dev/restored")
	for key, value := range want {
		if diff := cmp.Diff(value, metadata[key]); diff != "" {
			t.Errorf("metadata.%s (-want +got):\n%s", key, diff)
		}
	}
	if got.GetUID() == archived.GetUID() || len(got.GetOwnerReferences()) > 0 {
		t.Errorf("uid %s and owners %v come from the old cluster", got.GetUID(), got.GetOwnerReferences())
	}
	namespace := c.get(objects[0])
	if namespace.GetLabels()["team"] != "a" || namespace.GetAnnotations()["owner"] != "b" {
		t.Errorf("the namespace has labels %v and annotations %v", namespace.GetLabels(), namespace.GetAnnotations())
	}

	// One POST per object, and nothing else that depends on their number.
	if posts := c.wire.requests("POST", "/"); len(posts) != len(objects) {
		t.Errorf("%d POSTs for %d objects", len(posts), len(objects))
	}
	if patches := len(c.wire.writes()) - len(objects); patches != 0 {
		t.Errorf("%d writes that are no POST", patches)
	}
	if gets := c.wire.requests("GET", "/configmaps"); len(gets) != 0 {
		t.Errorf("existing objects were looked for: %v", gets)
	}

	// And all over again, as after a crash.
	again := c.run(restore.Request{Archive: spool(t, objects), RestoreUID: "uid-1"})
	if diff := cmp.Diff(listOf(result), listOf(again)); diff != "" {
		t.Errorf("the second run reports something else (-first +second):\n%s", diff)
	}
	if posts := c.wire.writes(); len(posts) != 0 {
		t.Errorf("the second run wrote: %v", posts)
	}
	unhold(c, archived)
}

// unhold lets an object with finalizers go.
func unhold(c *target, o *unstructured.Unstructured) {
	c.t.Helper()
	found := c.get(o)
	found.SetFinalizers(nil)
	if _, err := c.of(o).Update(c.t.Context(), found, metav1.UpdateOptions{}); err != nil {
		c.t.Errorf("removing finalizers: %v", err)
	}
}
