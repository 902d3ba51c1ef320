// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// BenchmarkItemAction measures the cost per object of an item action that does nothing, in
// addition to the engine without one: in the same process, and as a plugin's action whose
// calls take no time here.
func BenchmarkItemAction(b *testing.B) {
	nothing := fakeAction{func(itemaction.BackupItem) (itemaction.Result, error) { return itemaction.Result{}, nil }}
	for name, actions := range map[string][]itemaction.BackupAction{
		"none": nil, "in-process": {nothing}, "external": {outside{}}, "external, not concerned": {
			outside{concerns: func(string, map[string]string) bool { return false }},
		},
	} {
		b.Run(name, func(b *testing.B) {
			const perBatch = 128
			c, items := benchCollection(b, perBatch, actions)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				batch := rawclient.NewBatch(items...)
				if err := c.runActions(ctx, batch); err != nil || len(batch.Items) != perBatch {
					b.Fatalf("%d items, %v", len(batch.Items), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perBatch), "ns/item")
		})
	}
}

// benchCollection returns a collection of config maps, and a batch of them.
func benchCollection(b *testing.B, perBatch int, actions []itemaction.BackupAction) (*collection, []rawclient.Item) {
	b.Helper()
	w, err := archive.NewWriter(io.Discard, archive.WriterOptions{ModTime: time.Unix(0, 0)})
	if err != nil {
		b.Fatal(err)
	}
	r := newEnginePass(New(nil, Options{Actions: func() []itemaction.BackupAction { return actions }}), ArchiveRequest{}, w)
	r.plan = &plan{}
	r.prepareActions(context.Background()).Wait()
	resource := discovery.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true, Preferred: true}
	items := make([]rawclient.Item, perBatch)
	for i := range items {
		name := fmt.Sprint("cm-", i)
		items[i] = rawclient.Item{
			Namespace: "shop", Name: name, Key: "shop/" + name, RawLabels: []byte(`{"app":"web","tier":"front"}`),
			JSON: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop"}}`, name),
		}
	}
	return &collection{enginePass: r, resource: resource, actions: r.actionsForResource(resource)}, items
}
