// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// maxConcurrentNamespaces is how many namespaces of one kind are listed concurrently.
const maxConcurrentNamespaces = 16

// collection is one resource being collected.
type collection struct {
	*enginePass
	resource discovery.Resource
	actions  actionChain
	// alwaysIncluded has the keys of the related objects that are archived even if they are
	// excluded. It is set before any of them is read.
	alwaysIncluded map[string]struct{}

	// announced is the part of enginePass.expected that is not read yet. Only the goroutine that
	// lists across namespaces uses it.
	announced int64

	listed, selectedCount atomic.Int64
	bytes                 atomic.Int64
	failed                atomic.Bool
	// refusedKeys are the keys of objects that cannot be read.
	refusedKeys sync.Map
	// notFoundRetries counts requests for the kind that were retried after a 404. removed
	// reports that the cluster no longer serves the kind.
	notFoundRetries atomic.Int64
	removed         atomic.Bool
	reportRemoval   sync.Once
}

// collectResources collects all selected resources at the same time.
func (r *enginePass) collectResources(ctx context.Context) {
	var wg sync.WaitGroup
	for _, preferred := range r.plan.resources {
		for _, resource := range r.archivedVersions(preferred) {
			wg.Go(func() {
				c := &collection{enginePass: r, resource: resource, actions: r.actionsForResource(resource)}
				if err := recoverPanic(func() error { c.collectResource(ctx); return nil }); err != nil {
					c.recordListError(ctx, "", err)
				}
			})
		}
	}
	wg.Wait()
}

// archivedVersions returns the versions of a resource that are archived, the preferred
// one first.
func (r *enginePass) archivedVersions(preferred discovery.Resource) []discovery.Resource {
	out := []discovery.Resource{preferred}
	if !r.req.AllVersions {
		return out
	}
	for _, version := range r.plan.cluster.Versions[preferred.GroupResource()] {
		if version.GVR != preferred.GVR {
			out = append(out, version)
		}
	}
	return out
}

// collectResource reads the objects of the resource, drops those that are not selected, and
// sends the others to the writer.
func (c *collection) collectResource(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", c.resource.GroupResource().String(),
		"version", c.resource.GVR.Version)
	start := time.Now()
	c.collectOrderedItems(ctx)
	p := c.plan
	switch {
	case !c.resource.Namespaced || p.allNamespaces:
		c.listAllNamespaces(ctx, 0)
	case len(p.includedNamespaces) == 1:
		c.listIncludedNamespaces(ctx)
	case len(p.includedNamespaces) > 1:
		if c.listAllNamespaces(ctx, len(p.includedNamespaces)) {
			c.listIncludedNamespaces(ctx)
		}
	}
	if ctx.Err() != nil {
		return
	}
	took := time.Since(start)
	c.collectionTimes.Store(c.resource, took)
	level := 0
	if c.listed.Load() == 0 && !c.failed.Load() {
		level = 1
	}
	log.V(level).Info("Collected objects", "listed", c.listed.Load(), "selected", c.selectedCount.Load(),
		"bytes", c.bytes.Load(), "failed", c.failed.Load(), "duration", took.String())
}

// collectOrderedItems reads the objects that the user ordered before all others.
func (c *collection) collectOrderedItems(ctx context.Context) {
	for _, name := range c.plan.selection.OrderedItems(c.resource.GroupResource()) {
		if ctx.Err() != nil || (name.Namespace != "") != c.resource.Namespaced {
			continue
		}
		if name.Namespace != "" && !c.plan.selection.IncludesNamespace(name.Namespace) {
			continue
		}
		item, err := c.getWithRetry(ctx, name.Namespace, name.Name)
		switch {
		case apierrors.IsNotFound(err) && !isKindNotFound(err), errors.Is(err, errResourceRemoved):
			c.results.Warn(c.subject(name.Namespace, name.Name), results.ReasonNoMatch, fmt.Sprintf(
				"%s %q is named in orderedResources and does not exist", c.resource.GroupResource(), name.String()))
		case err != nil:
			c.recordListError(ctx, name.Namespace, err)
		default:
			if err := c.sendSelectedItems(ctx, rawclient.NewBatch(item)); err != nil {
				return
			}
		}
	}
}

// listAllNamespaces lists the resource across namespaces. For named namespaces, it returns
// true without processing any object if listing them separately costs less.
func (c *collection) listAllNamespaces(ctx context.Context, named int) (tooWide bool) {
	req := c.newListRequest("")
	if named > 0 {
		req.FirstPageSize = named * rawclient.ObjectsPerListRequest
	}
	summary, err := c.listWithRetry(ctx, req, rawclient.Handler{
		Page: func(page rawclient.Page) error {
			if page.ShouldListPerNamespace(named, len(c.plan.namespaces)) {
				tooWide = true
				return rawclient.ErrStop
			}
			c.updateExpectedCount(page)
			return nil
		},
		Batch:   func(batch *rawclient.Batch) error { return c.sendSelectedItems(ctx, batch) },
		Refused: func(err *rawclient.RefusedError) { c.recordRefusedItem(ctx, err) },
	})
	c.expected.Add(-c.announced)
	c.announced = 0
	switch {
	case tooWide:
		return true
	case ctx.Err() == nil && c.canFallBackToNamespaces(err):
		c.recordListSummary("", summary)
		c.fallBackToNamespaces(ctx, err)
	default:
		c.recordListSummary("", summary)
		c.recordListError(ctx, "", err)
	}
	return false
}

// updateExpectedCount updates the number of expected objects for the progress.
func (c *collection) updateExpectedCount(page rawclient.Page) {
	coming := max(page.Remaining, 0)
	if c.resource.Namespaced && !c.plan.allNamespaces && len(c.plan.namespaces) > 0 {
		coming = coming * int64(len(c.plan.includedNamespaces)) / int64(len(c.plan.namespaces))
	}
	c.expected.Add(coming - c.announced)
	c.announced = coming
}

// listIncludedNamespaces lists the resource in every included namespace.
func (c *collection) listIncludedNamespaces(ctx context.Context) {
	c.listEachNamespace(ctx, 0, func(namespace string, err error) { c.recordListError(ctx, namespace, err) })
}

// listEachNamespace lists the resource in every included namespace and reports the failed
// ones. Pages that fail because of their objects are requested attempts times; 0 means the
// default.
func (c *collection) listEachNamespace(ctx context.Context, attempts int, failed func(namespace string, err error)) {
	places := make(chan struct{}, maxConcurrentNamespaces)
	var wg sync.WaitGroup
	for _, namespace := range c.plan.includedNamespaces {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-places }()
			if err := recoverPanic(func() error { return c.listOneNamespace(ctx, namespace, attempts) }); err != nil {
				failed(namespace, err)
			}
		})
	}
	wg.Wait()
}

// listOneNamespace lists the resource in one namespace.
func (c *collection) listOneNamespace(ctx context.Context, namespace string, attempts int) error {
	req := c.newListRequest(namespace)
	req.MaxObjectFailures = attempts
	summary, err := c.listWithRetry(ctx, req, rawclient.Handler{
		Batch:   func(batch *rawclient.Batch) error { return c.sendSelectedItems(ctx, batch) },
		Refused: func(err *rawclient.RefusedError) { c.recordRefusedItem(ctx, err) },
	})
	c.recordListSummary(namespace, summary)
	return err
}

func (c *collection) newListRequest(namespace string) rawclient.ListRequest {
	return rawclient.ListRequest{
		ResourceKind:    toListKind(c.resource),
		Namespace:       namespace,
		LabelSelector:   c.plan.labelSelector,
		ResourceVersion: c.plan.resourceVersionFor(c.resource.GVR.GroupResource()),
		Slots:           c.listSlots,
	}
}

// recordListSummary records the result of one LIST, except its error.
func (c *collection) recordListSummary(namespace string, summary rawclient.Summary) {
	c.bytes.Add(summary.Bytes)
	gr := c.resource.GroupResource()
	if summary.Expired > 0 {
		c.results.Warn(c.subject(namespace, ""), results.ReasonInconsistentList, fmt.Sprintf("The list of %s expired %d times while it was read; "+
			"its objects are not all of the same moment", gr, summary.Expired))
	}
	if summary.Nameless > 0 {
		c.recordError(c.subject(namespace, ""), results.ReasonNotBackedUp, fmt.Errorf("%d objects of %s have no name and cannot be archived", summary.Nameless, gr))
	}
}

// recordListError records that a part of the resource could not be read.
func (c *collection) recordListError(ctx context.Context, namespace string, err error) {
	if err == nil || ctx.Err() != nil {
		return // the error of the run has the reason
	}
	c.failed.Store(true)
	log := logr.FromContextOrDiscard(ctx)
	if errors.Is(err, errResourceRemoved) {
		c.reportRemoval.Do(func() {
			c.results.Warn(c.subject("", ""), results.ReasonNotServed, fmt.Sprintf("The cluster no longer serves %s: it was removed after the backup began",
				c.resource.GVR.GroupResource()))
			log.Info("Skipping a resource that the cluster no longer serves", "resource", c.resource.GVR.String())
		})
		return
	}
	c.recordError(c.subject(namespace, ""), results.ReasonNotBackedUp, fmt.Errorf("objects are missing from this backup: %w", err))
	log.Error(err, "Failed collecting objects", "resource", c.resource.GVR.String(), "namespace", namespace)
}

// sendSelectedItems sends the selected items of a batch to the writer.
func (c *collection) sendSelectedItems(ctx context.Context, batch *rawclient.Batch) error {
	c.listed.Add(int64(len(batch.Items)))
	kept := batch.Items[:0]
	for i := range batch.Items {
		item := &batch.Items[i]
		claimed, err := c.reserveIfSelected(item)
		if err != nil {
			c.recordItemError(ctx, item, err)
		}
		if claimed {
			kept = append(kept, *item)
		}
	}
	return c.runActionsAndSend(ctx, batch, kept)
}

// reserveIfSelected reports whether to archive an object. If so, it reserves the object, so
// no other goroutine archives it.
func (c *collection) reserveIfSelected(item *rawclient.Item) (claimed bool, err error) {
	defer panics.Recover(&err)
	return c.isSelected(*item) && c.archive.ReserveObject(archiveIdentity(c.resource, item.Namespace, item.Name)), nil
}

// shouldArchive is isSelected for an object that cannot be read, which may be malformed in
// any way.
func (c *collection) shouldArchive(item *rawclient.Item) (selected bool, err error) {
	defer panics.Recover(&err)
	return c.isSelected(*item), nil
}

// runActionsAndSend calls the actions for the kept objects of a batch and sends the objects
// to the writer.
func (c *collection) runActionsAndSend(ctx context.Context, batch *rawclient.Batch, kept []rawclient.Item) error {
	batch.Items = kept
	if err := c.runActions(ctx, batch); err != nil {
		batch.Release()
		return err
	}
	c.selectedCount.Add(int64(len(batch.Items)))
	return c.sendBatchToWriter(ctx, c.resource, batch)
}

// isSelected reports whether a listed object belongs to the backup.
func (c *collection) isSelected(item rawclient.Item) bool {
	if item.Deleting {
		return false
	}
	s := c.plan.selection
	if item.Namespace != "" && !c.plan.allNamespaces && !s.IncludesNamespace(item.Namespace) {
		return false
	}
	if !c.plan.hasLabelSelector {
		return !isExcludedByLabel(item)
	}
	labels, err := item.Labels()
	return err == nil && s.MatchesLabels(labels) && !selection.IsExcludedByLabel(labels)
}

// isExcludedByLabel reports whether an object has one of the labels that exclude it from
// every backup. It decodes labels only if they may be present.
func isExcludedByLabel(item rawclient.Item) bool {
	if item.RawLabels == nil || !bytes.Contains(item.RawLabels, []byte("exclude-from-backup")) {
		return false
	}
	labels, err := item.Labels()
	return err == nil && selection.IsExcludedByLabel(labels)
}
