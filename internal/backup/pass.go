// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/podhook"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// maxQueuedBatches bounds the batches that wait for the writer.
const maxQueuedBatches = 8

// enginePass is one backup in progress. Unless documented otherwise, newEnginePass or
// makePlan sets its fields before anything is listed.
type enginePass struct {
	engine  *Engine
	cluster Cluster
	req     ArchiveRequest
	archive *archive.Writer
	results results.Collector
	plan    *plan
	actions []*runnableAction

	// listSlots are only for this run, so a slow store does not block other runs.
	listSlots *rawclient.Slots

	// actionSlots bounds the concurrent calls of plugins' actions, and recordingSlots the
	// operations that are being recorded.
	actionSlots, recordingSlots chan struct{}
	reports                     actionReports

	// batches is the channel to the writer.
	batches chan resourceBatch

	// related are the objects that actions named.
	related relatedSet
	// nonEmptyNamespaces are the namespaces with at least one archived object.
	nonEmptyNamespaces sync.Map
	claims             claimRecorder
	disabledPods       podhook.DisabledPods

	// expected is how many objects the API server returned or announced but that are not
	// read yet.
	expected atomic.Int64

	// written, namesByResource and bytesByResource are used only by the writing goroutine.
	written         int
	namesByResource map[discovery.Resource][]string
	bytesByResource map[discovery.Resource]int64

	// collectionTimes has the time.Duration of the collection of each discovery.Resource.
	collectionTimes sync.Map
}

// resourceBatch is a batch of objects of one resource, reserved and ready to be written.
// The receiver releases the batch.
type resourceBatch struct {
	resource discovery.Resource
	batch    *rawclient.Batch
}

func newEnginePass(e *Engine, req ArchiveRequest, w *archive.Writer) *enginePass {
	return &enginePass{
		engine:          e,
		cluster:         e.cluster,
		req:             req,
		archive:         w,
		listSlots:       rawclient.NewSlots(e.opts.InFlight, e.opts.Readers),
		actionSlots:     make(chan struct{}, e.opts.ActionWorkers),
		recordingSlots:  make(chan struct{}, maxConcurrentRecordings),
		batches:         make(chan resourceBatch, maxQueuedBatches),
		related:         relatedSet{capacity: maxExternalRefs},
		namesByResource: map[discovery.Resource][]string{},
		bytesByResource: map[discovery.Resource]int64{},
	}
}

// collectAllObjects finds and sends everything that belongs to the archive.
func (r *enginePass) collectAllObjects(ctx context.Context) (err error) {
	defer panics.Recover(&err)
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	prepared := r.prepareActions(ctx)
	gather := r.collectSelected
	if r.req.hasOnlyItems() {
		gather = r.collectOnlyItems
	}
	err = gather(ctx)
	prepared.Wait()
	if err != nil {
		return err
	}
	r.logActionCounts(ctx)
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("collecting objects: %w", err)
	}
	return nil
}

// collectSelected sends the selected objects and those that they need.
func (r *enginePass) collectSelected(ctx context.Context) error {
	r.collectResources(ctx)
	for more := true; more; more = r.related.hasPendingItems() {
		if err := r.collectAllRelated(ctx); err != nil {
			return err
		}
		// This is last, since it depends on the contents of the namespaces; but Namespace
		// objects may need more.
		if err := r.collectNamespaces(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sendBatchToWriter passes a batch to the writer, and returns false if the run has ended.
func (r *enginePass) sendBatchToWriter(ctx context.Context, resource discovery.Resource, batch *rawclient.Batch) error {
	if len(batch.Items) == 0 {
		batch.Release()
		return nil
	}
	r.expected.Add(int64(len(batch.Items)))
	select {
	case r.batches <- resourceBatch{resource: resource, batch: batch}:
		return nil
	case <-ctx.Done():
		batch.Release()
		return context.Cause(ctx)
	}
}

// archiveIdentity returns the identity of an object in the archive.
func archiveIdentity(resource discovery.Resource, namespace, name string) archive.Identity {
	return archive.Identity{
		Group:     resource.GVR.Group,
		Version:   resource.GVR.Version,
		Resource:  resource.GVR.Resource,
		Preferred: resource.Preferred,
		Namespace: namespace,
		Name:      name,
	}
}

// toListKind converts a resource to a kind of package rawclient.
func toListKind(resource discovery.Resource) rawclient.ResourceKind {
	return rawclient.ResourceKind{Resource: resource.GVR, Kind: resource.Kind}
}
