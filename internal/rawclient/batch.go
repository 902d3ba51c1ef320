// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
)

const (
	// batchBytes is the size at which a batch is passed to the caller. A batch
	// has at least one object and may therefore be larger.
	batchBytes = 256 << 10
	// maxPooledBytes is the size of the largest buffer that is kept. A buffer that once held
	// a huge object, larger than etcd accepts, is dropped.
	maxPooledBytes = 2 << 20
)

// Item is one object of a batch. Its byte slices belong to the batch and are
// valid until Batch.Release; its strings may be kept.
type Item struct {
	// Key is "namespace/name", or only the name of a cluster-scoped object.
	Key string
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
	// JSON of the object on one line, with apiVersion and kind first (items of
	// a LIST of built-in kinds lack them on the wire).
	JSON []byte
	// RawLabels is the JSON of metadata.labels, nil without any.
	RawLabels []byte
	// Deleting means that metadata.deletionTimestamp is set.
	Deleting bool
}

// Labels decodes the labels of the object.
func (i Item) Labels() (map[string]string, error) {
	if i.RawLabels == nil {
		return nil, nil
	}
	labels := map[string]string{}
	if err := json.Unmarshal(i.RawLabels, &labels); err != nil {
		return nil, fmt.Errorf("decoding labels of %q: %w", i.Key, err)
	}
	return labels, nil
}

// Batch is a number of objects of one kind, in list order.
type Batch struct {
	// Items of the batch. The receiver may change the slice.
	Items []Item

	buf     []byte
	offsets []offsets
	pool    *sync.Pool
}

// offsets are the positions of one item in the buffer of its batch, which moves
// while the batch is being filled.
type offsets struct{ start, end, labelsStart, labelsEnd int }

// Release returns the memory of the batch to the pool. Neither the batch nor the bytes
// of its items may be used afterwards.
func (b *Batch) Release() {
	if b == nil || b.pool == nil {
		return
	}
	pool := b.pool
	b.pool = nil
	if cap(b.buf) > maxPooledBytes {
		b.buf = nil
	}
	clear(b.Items)
	b.Items, b.buf, b.offsets = b.Items[:0], b.buf[:0], b.offsets[:0]
	pool.Put(b)
}

// lastItem returns the most recently added object.
func (b *Batch) lastItem() *Item { return &b.Items[len(b.Items)-1] }

// dropLastItem removes the most recently added object.
func (b *Batch) dropLastItem() {
	n := len(b.Items) - 1
	b.buf = b.buf[:b.offsets[n].start]
	b.Items, b.offsets = b.Items[:n], b.offsets[:n]
}

// sealItems sets the slices of the items once the buffer no longer moves.
func (b *Batch) sealItems() {
	for i, o := range b.offsets {
		b.Items[i].JSON = b.buf[o.start:o.end:o.end]
		if o.labelsEnd > o.labelsStart {
			b.Items[i].RawLabels = b.buf[o.labelsStart:o.labelsEnd:o.labelsEnd]
		}
	}
}

// newPooledBatch takes an empty batch from pool.
func newPooledBatch(pool *sync.Pool) *Batch {
	b, ok := pool.Get().(*Batch)
	if !ok {
		b = &Batch{}
	}
	b.pool = pool
	if b.buf == nil {
		b.buf = make([]byte, 0, batchBytes+batchBytes/4)
	}
	return b
}

// AppendTo appends copies of the items, with memory of their own, to items.
func (b *Batch) AppendTo(items []Item) []Item {
	for _, item := range b.Items {
		item.JSON = bytes.Clone(item.JSON)
		item.RawLabels = bytes.Clone(item.RawLabels)
		items = append(items, item)
	}
	return items
}

// NewBatch returns a batch of items with memory of their own.
func NewBatch(items ...Item) *Batch { return &Batch{Items: items} }
