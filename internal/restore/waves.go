// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// minItemsForList is the number of possibly existing objects of a kind from which a
	// LIST is worthwhile.
	minItemsForList = 20
	// maxConcurrentNamespaces is how many namespaces of one kind are listed concurrently.
	maxConcurrentNamespaces = 16
)

// restoreKinds restores the selected objects of several kinds together.
func (r *enginePass) restoreKinds(ctx context.Context, kinds []*kind) {
	var wg sync.WaitGroup
	for _, k := range kinds {
		r.startGoroutine(&wg, func() { r.restoreKind(ctx, k) })
	}
	wg.Wait()
}

// compareExisting compares the existing objects of all kinds together: their LISTs wait at
// the same time, and no writes delay them meanwhile. Only objects that will be replaced
// have to wait for the wave of their kind, because their related items may be missing.
func (r *enginePass) compareExisting(ctx context.Context, waves [][]*kind) {
	if r.req.Policy == ExistingRecreate {
		return
	}
	var wg sync.WaitGroup
	for _, k := range slices.Concat(waves...) {
		if k.neverReason == "" {
			k.existingCompared = true
			r.startGoroutine(&wg, func() {
				defer k.addWorkTime(time.Now())
				r.listExisting(ctx, k)
			})
		}
	}
	wg.Wait()
}

// restoreKind restores the selected objects of one kind that are not restored yet.
func (r *enginePass) restoreKind(ctx context.Context, k *kind) {
	defer k.addWorkTime(time.Now())
	switch {
	case k.isEmpty():
		return
	case k.neverReason != "":
		r.outcomes.addSkippedObjects(k.resource, k.neverReason, k.countSelected())
		return
	case !k.isServed && r.dryRunCRDVersions[k.resource] == nil && len(k.pluginActions) == 0:
		r.outcomes.addRefusal(refusal{resource: k.resource, reason: r.notServedReason(k.resource)}, k.countSelected())
		return
	}
	if !k.existingCompared {
		r.listExisting(ctx, k)
	}
	r.restorePending(ctx, k)
}

// restorePending restores the selected objects of a kind that no worker has restored.
func (r *enginePass) restorePending(ctx context.Context, k *kind) {
	var next atomic.Int64
	var wg sync.WaitGroup
	var work func()
	work = func() {
		for at := int(next.Add(1)) - 1; at < len(k.statuses); at = int(next.Add(1)) - 1 {
			m := &k.statuses[at]
			if m.selected && m.state.Load() == statePending && !r.restoreNext(ctx, k, k.entryAt(at), func() { r.startGoroutine(&wg, work) }) {
				return
			}
		}
	}
	for range min(cap(r.workerSlots), len(k.statuses)) {
		r.startGoroutine(&wg, work)
	}
	wg.Wait()
}

// restoreNext restores an entry when a slot is free, unless another worker does; stead
// starts another worker for the slot if the object has to wait. It returns false if the run
// has ended.
func (r *enginePass) restoreNext(ctx context.Context, k *kind, e entry, stead func()) bool {
	if !r.acquireWorkerSlot(ctx) {
		return false
	}
	own := &workerSlot{pass: r, substitute: stead}
	defer own.releaseSlot()
	if e.tryStart() {
		r.restoreEntry(ctx, startedEntry{kind: k, entry: e, slot: own})
	}
	return true
}

// notServedReason returns why a resource is not served.
func (r *enginePass) notServedReason(resource schema.GroupResource) string {
	for gv, err := range r.served.Failed {
		if gv.Group == resource.Group {
			return fmt.Sprintf("the API group does not answer: %v; restore again when it does", err)
		}
	}
	if definitions := r.kinds[crdResource]; definitions != nil {
		if definitions.inclusion == selection.Excluded {
			return "the cluster does not serve them, and the CustomResourceDefinitions of the backup are not selected: " +
				"include customresourcedefinitions, or install what defines them, and restore again"
		}
		if _, ok := definitions.findEntry("", resource.String()); ok {
			return "the cluster does not serve them, and their CustomResourceDefinition in the backup was not restored"
		}
	}
	return "the cluster does not serve them: install what defines them, and restore again"
}

// listExisting lists a kind, if many of its objects may exist, and compares the existing
// ones.
func (r *enginePass) listExisting(ctx context.Context, k *kind) {
	if !k.isServed {
		return
	}
	count, targets := r.countPossiblyExisting(ctx, k)
	if count == 0 || count < minItemsForList && !r.req.DryRun {
		return
	}
	var err error
	wide := true
	if k.namespaced {
		wide, err = r.tryListAllNamespaces(ctx, k, len(targets))
	} else {
		_, err = r.listAndCompare(ctx, k, "", nil)
	}
	if !wide {
		err = r.listEachNamespace(ctx, k, targets)
	}
	k.existingListed.Store(err == nil)
	if err != nil && ctx.Err() == nil {
		loggerFrom(ctx).Info("Creating objects without a list of those that exist", "resource", k.resource.String(), "reason", err.Error())
	}
}

// countPossiblyExisting returns how many selected objects may exist, and in which namespaces.
func (r *enginePass) countPossiblyExisting(ctx context.Context, k *kind) (count int, targets []string) {
	old := map[string]bool{}
	for e := range k.entriesInScope() {
		if !e.selected || e.state.Load() != statePending {
			continue
		}
		if e.Namespace != "" {
			target := r.namespaceMapping.targetNamespace(e.Namespace)
			state := r.ensureNamespace(ctx, target)
			if state.created || state.err != nil {
				continue
			}
			old[target] = true
		}
		count++
	}
	return count, slices.Sorted(maps.Keys(old))
}

// tryListAllNamespaces lists across namespaces, unless a LIST for each of them costs less;
// then it returns false. A restore does not list the namespaces of the cluster, so their number is
// unknown.
func (r *enginePass) tryListAllNamespaces(ctx context.Context, k *kind, namespaces int) (bool, error) {
	if namespaces == 1 {
		return false, nil
	}
	wide := true
	_, err := r.listAndCompare(ctx, k, "", func(page rawclient.Page) error {
		if page.ShouldListPerNamespace(namespaces, 0) {
			wide = false
			return rawclient.ErrStop
		}
		return nil
	})
	return wide, err
}

// listEachNamespace lists some namespaces. It stops at the first error.
func (r *enginePass) listEachNamespace(ctx context.Context, k *kind, namespaces []string) error {
	places := make(chan struct{}, maxConcurrentNamespaces)
	errs := make(chan error, len(namespaces))
	var wg sync.WaitGroup
	for _, namespace := range namespaces {
		places <- struct{}{}
		r.startGoroutine(&wg, func() {
			defer func() { <-places }()
			if _, err := r.listAndCompare(ctx, k, namespace, nil); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (r *enginePass) listAndCompare(ctx context.Context, k *kind, namespace string, page func(rawclient.Page) error) (rawclient.Summary, error) {
	return r.cluster.List(ctx, rawclient.ListRequest{ResourceKind: toListKind(k.served), Namespace: namespace, Slots: r.listSlots}, rawclient.Handler{
		Page: page,
		Batch: func(batch *rawclient.Batch) error {
			defer batch.Release()
			return recoverPanic(func() error {
				r.compareBatch(ctx, k, batch.Items)
				return ctx.Err()
			})
		},
	})
}

// compareBatch compares the objects of a batch that are to be restored.
func (r *enginePass) compareBatch(ctx context.Context, k *kind, found []rawclient.Item) {
	var wg sync.WaitGroup
	for i := range found {
		e, ok := r.entryForExisting(k, &found[i])
		if !ok || !e.selected || e.state.Load() != statePending || !r.acquireWorkerSlot(ctx) {
			continue
		}
		if !e.tryStart() {
			r.releaseWorkerSlot()
			continue
		}
		r.startGoroutine(&wg, func() {
			own := &workerSlot{pass: r}
			defer own.releaseSlot()
			r.restoreEntry(ctx, startedEntry{kind: k, entry: e, existing: &found[i], slot: own})
		})
	}
	wg.Wait()
}

// entryForExisting returns the entry whose target is an object of the cluster.
func (r *enginePass) entryForExisting(k *kind, found *rawclient.Item) (entry, bool) {
	sources := []string{""}
	if found.Namespace != "" {
		sources = r.namespaceMapping.sourceNamespaces(found.Namespace)
	}
	for _, source := range sources {
		if e, ok := k.findEntry(source, found.Name); ok {
			return e, true
		}
	}
	return entry{}, false
}
