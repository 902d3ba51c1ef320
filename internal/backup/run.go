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
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// queuedParcels bounds what waits for the writer.
const queuedParcels = 8

// run is one backup under way. Its fields are set by newRun or by makePlan,
// before anything is listed, unless they say otherwise.
type run struct {
	engine  *Engine
	cluster Cluster
	req     Request
	archive *archive.Writer
	results results.Collector
	plan    *plan
	actions []*action

	// places are the run's own, so that a slow store holds up nobody else.
	places *list.Places

	// actionPlaces bounds how many objects external actions see at a time.
	actionPlaces chan struct{}
	told         told

	// parcels is the way of everything to the writer.
	parcels chan parcel

	// related are the objects that actions named.
	related relatedSet
	// inhabited are the namespaces with at least one archived object.
	inhabited sync.Map
	volumes   volumeList

	// expected is how many objects were collected or announced by the API
	// server but not read yet.
	expected atomic.Int64

	// written and names belong to the writing goroutine.
	written int
	names   map[discovery.Resource][]string
}

// parcel is a batch of objects of one resource, claimed and ready to be
// written. Whoever takes it releases the batch.
type parcel struct {
	resource discovery.Resource
	batch    *list.Batch
}

func newRun(e *Engine, req Request, w *archive.Writer) *run {
	return &run{
		engine:       e,
		cluster:      e.cluster,
		req:          req,
		archive:      w,
		places:       list.NewPlaces(e.opts.InFlight, e.opts.Readers),
		actionPlaces: make(chan struct{}, e.opts.ActionWorkers),
		parcels:      make(chan parcel, queuedParcels),
		related:      relatedSet{room: maxExternal},
		names:        map[discovery.Resource][]string{},
	}
}

// collect finds and sends everything that belongs into the archive.
func (r *run) collect(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	prepared := r.prepareActions(ctx)
	gather := r.collectSelected
	if r.req.only() {
		gather = r.collectOnly
	}
	err := gather(ctx)
	prepared.Wait()
	if err != nil {
		return err
	}
	r.logActions(ctx)
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("collecting objects: %w", err)
	}
	return nil
}

// collectSelected sends the objects that are selected and those that they need.
func (r *run) collectSelected(ctx context.Context) error {
	r.listKinds(ctx)
	for more := true; more; more = r.related.waiting() {
		if err := r.addRelated(ctx); err != nil {
			return err
		}
		// Last, since it depends on what lives in them; but they may need more.
		if err := r.addNamespaces(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send hands a parcel to the writer, and returns false if the run has ended.
func (r *run) send(ctx context.Context, resource discovery.Resource, batch *list.Batch) error {
	if len(batch.Items) == 0 {
		batch.Release()
		return nil
	}
	r.expected.Add(int64(len(batch.Items)))
	select {
	case r.parcels <- parcel{resource: resource, batch: batch}:
		return nil
	case <-ctx.Done():
		batch.Release()
		return context.Cause(ctx)
	}
}

// identity returns the place of an object in the archive.
func identity(resource discovery.Resource, namespace, name string) archive.Identity {
	return archive.Identity{
		Group:     resource.GVR.Group,
		Version:   resource.GVR.Version,
		Resource:  resource.GVR.Resource,
		Preferred: resource.Preferred,
		Namespace: namespace,
		Name:      name,
	}
}

// kindOf returns what the list package calls a resource.
func kindOf(resource discovery.Resource) list.Kind {
	return list.Kind{Resource: resource.GVR, Kind: resource.Kind}
}
