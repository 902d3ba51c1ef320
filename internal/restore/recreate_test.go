// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestImmutableObjects can be replaced, and not updated. Those that are as they
// should be are not touched.
func TestImmutableObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "immutable"
	c.namespace(ns)
	fixed := obj(t, "v1", "ConfigMap", ns, "fixed", `{"immutable":true,"data":{"key":"now"}}`)
	same := obj(t, "v1", "Secret", ns, "same", `{"immutable":true,"data":{"key":"Yg=="},"type":"Opaque"}`)
	before := c.create(fixed, same)
	request := restore.Request{Policy: restore.ExistingUpdate, Archive: spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "ConfigMap", ns, "fixed", `{"immutable":true,"data":{"key":"then"}}`), same,
	})}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Failed: 1, restore.Unchanged: 1})
	wantMessages(t, result, `error immutable: |configmaps "immutable/fixed"|field is immutable|existingResourcePolicy recreate replaces it`)

	request.Policy = restore.ExistingRecreate
	result = c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Recreated: 1, restore.Unchanged: 1})
	wantMessages(t, result)
	if got := c.get(fixed); data(got)["key"] != "then" || got.GetUID() == before[0].GetUID() {
		t.Errorf("it has %v", data(got))
	}
	if got := c.get(same); got.GetResourceVersion() != before[1].GetResourceVersion() {
		t.Error("what was as it should be was written")
	}
	if deletes := c.wire.requests("DELETE", "/"); len(deletes) != 1 {
		t.Errorf("deleted %v", deletes)
	}
}
