// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// objectsPerRequest is how many objects more a LIST may yield in the time
	// of one more request: what decides between one LIST across all namespaces
	// and one per namespace. Measured: 2.6 ms against 36 µs.
	objectsPerRequest = 64
	// namespacesAtOnce is how many namespaces of one kind are listed together.
	namespacesAtOnce = 16
)

// collection is one resource being collected.
type collection struct {
	*run
	resource discovery.Resource
	actions  chain
	// always are the related objects, by key, that are archived even if they are
	// excluded. It is set before any of them is read.
	always map[string]struct{}

	// announced is the part of run.expected that is not read yet. It belongs
	// to the goroutine that lists across namespaces.
	announced int64

	listed, kept atomic.Int64
	bytes        atomic.Int64
	failed       atomic.Bool
}

// listKinds collects all selected resources at the same time.
func (r *run) listKinds(ctx context.Context) {
	var wg sync.WaitGroup
	for _, preferred := range r.plan.resources {
		for _, resource := range r.versions(preferred) {
			wg.Go(func() {
				c := &collection{run: r, resource: resource, actions: r.actionsFor(resource)}
				c.collect(ctx)
			})
		}
	}
	wg.Wait()
}

// versions returns the versions of a resource that are archived, the preferred
// one first.
func (r *run) versions(preferred discovery.Resource) []discovery.Resource {
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

// collect reads the objects of the resource, drops those that are not
// selected, and sends the others to the writer.
func (c *collection) collect(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", c.resource.GroupResource().String(),
		"version", c.resource.GVR.Version)
	start := time.Now()
	c.orderedFirst(ctx)
	p := c.plan
	switch {
	case !c.resource.Namespaced || p.all:
		c.wide(ctx, 0)
	case len(p.included) == 1:
		c.eachNamespace(ctx)
	case len(p.included) > 1:
		if c.wide(ctx, len(p.included)) {
			c.eachNamespace(ctx)
		}
	}
	if ctx.Err() != nil {
		return
	}
	level := 0
	if c.listed.Load() == 0 && !c.failed.Load() {
		level = 1
	}
	log.V(level).Info("Collected objects", "listed", c.listed.Load(), "selected", c.kept.Load(),
		"bytes", c.bytes.Load(), "failed", c.failed.Load(), "duration", time.Since(start).String())
}

// orderedFirst reads the objects that the user wants before all others.
func (c *collection) orderedFirst(ctx context.Context) {
	for _, name := range c.plan.selection.Ordered(c.resource.GroupResource()) {
		if ctx.Err() != nil || (name.Namespace != "") != c.resource.Namespaced {
			continue
		}
		if name.Namespace != "" && !c.plan.selection.IncludesNamespace(name.Namespace) {
			continue
		}
		item, err := c.cluster.Get(ctx, kindOf(c.resource), name.Namespace, name.Name)
		switch {
		case apierrors.IsNotFound(err):
			c.results.Warn(results.Object(name.Namespace), fmt.Sprintf(
				"%s %q is named in orderedResources and does not exist", c.resource.GroupResource(), name.String()))
		case err != nil:
			c.report(ctx, name.Namespace, err)
		default:
			if err := c.take(ctx, list.BatchOf(item)); err != nil {
				return
			}
		}
	}
}

// wide lists the resource across namespaces. Of named namespaces it reports
// true, before it has taken anything, if listing them one by one costs less.
func (c *collection) wide(ctx context.Context, named int) (tooWide bool) {
	req := c.request("")
	if named > 0 {
		req.FirstPageSize = named * objectsPerRequest
	}
	summary, err := c.cluster.List(ctx, req, list.Handler{
		Page: func(page list.Page) error {
			if page.First && named > 0 && c.costsMore(page, named) {
				tooWide = true
				return list.ErrStop
			}
			c.announce(page)
			return nil
		},
		Batch: func(batch *list.Batch) error { return c.take(ctx, batch) },
	})
	c.expected.Add(-c.announced)
	c.announced = 0
	if !tooWide {
		c.finish(ctx, "", summary, err)
	}
	return tooWide
}

// costsMore reports whether reading the rest of a list, most of which may be
// in other namespaces, costs more than a request for each of the named ones.
func (c *collection) costsMore(page list.Page, named int) bool {
	all := len(c.plan.namespaces)
	if page.Remaining <= 0 || named >= all {
		return false
	}
	elsewhere := page.Remaining * int64(all-named) / int64(all)
	return elsewhere > int64(named)*objectsPerRequest
}

// announce tells the progress how many objects are still to come.
func (c *collection) announce(page list.Page) {
	coming := max(page.Remaining, 0)
	if c.resource.Namespaced && !c.plan.all && len(c.plan.namespaces) > 0 {
		coming = coming * int64(len(c.plan.included)) / int64(len(c.plan.namespaces))
	}
	c.expected.Add(coming - c.announced)
	c.announced = coming
}

// eachNamespace lists the resource in every included namespace.
func (c *collection) eachNamespace(ctx context.Context) {
	places := make(chan struct{}, namespacesAtOnce)
	var wg sync.WaitGroup
	for _, namespace := range c.plan.included {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-places }()
			summary, err := c.cluster.List(ctx, c.request(namespace), list.Handler{
				Batch: func(batch *list.Batch) error { return c.take(ctx, batch) },
			})
			c.finish(ctx, namespace, summary, err)
		})
	}
	wg.Wait()
}

func (c *collection) request(namespace string) list.Request {
	return list.Request{
		Kind:            kindOf(c.resource),
		Namespace:       namespace,
		LabelSelector:   c.plan.labels,
		ResourceVersion: c.plan.versionFor(c.resource.GVR.GroupResource()),
		Places:          c.places,
	}
}

// finish records what became of one LIST.
func (c *collection) finish(ctx context.Context, namespace string, summary list.Summary, err error) {
	c.bytes.Add(summary.Bytes)
	if err != nil {
		c.report(ctx, namespace, err)
	}
	gr := c.resource.GroupResource()
	scope := results.Run()
	if namespace != "" {
		scope = results.Object(namespace)
	}
	if summary.Expired > 0 {
		c.results.Warn(scope, fmt.Sprintf("The list of %s expired %d times while it was read; "+
			"its objects are not all of the same moment", gr, summary.Expired))
	}
	if summary.Nameless > 0 {
		c.results.Error(scope, fmt.Errorf("%d objects of %s have no name and cannot be archived", summary.Nameless, gr))
	}
}

// report records that a part of the resource could not be read.
func (c *collection) report(ctx context.Context, namespace string, err error) {
	if ctx.Err() != nil {
		return // the run says why it ended
	}
	c.failed.Store(true)
	scope := results.Run()
	if namespace != "" {
		scope = results.Object(namespace)
	}
	log := logr.FromContextOrDiscard(ctx)
	if apierrors.IsNotFound(err) {
		// Somebody removed the kind since discovery.
		c.results.Warn(scope, fmt.Sprintf("The cluster no longer serves %s: %v", c.resource.GVR.GroupResource(), err))
		log.Info("Passing over a resource that the cluster no longer serves", "resource", c.resource.GVR.String())
		return
	}
	c.results.Error(scope, fmt.Errorf("objects are missing from this backup: %w", err))
	log.Error(err, "Failed collecting objects", "resource", c.resource.GVR.String(), "namespace", namespace)
}

// take keeps what is selected of a batch and sends it to the writer.
func (c *collection) take(ctx context.Context, batch *list.Batch) error {
	c.listed.Add(int64(len(batch.Items)))
	kept := batch.Items[:0]
	for _, item := range batch.Items {
		if c.selects(item) && c.archive.Claim(identity(c.resource, item.Namespace, item.Name)) {
			kept = append(kept, item)
		}
	}
	return c.deliver(ctx, batch, kept)
}

// deliver shows the kept objects of a batch to the actions and sends them to
// the writer.
func (c *collection) deliver(ctx context.Context, batch *list.Batch, kept []list.Item) error {
	batch.Items = kept
	if err := c.offer(ctx, batch); err != nil {
		batch.Release()
		return err
	}
	c.kept.Add(int64(len(batch.Items)))
	return c.send(ctx, c.resource, batch)
}

// selects reports whether an object that was listed belongs into the backup.
func (c *collection) selects(item list.Item) bool {
	if item.Deleting {
		return false
	}
	s := c.plan.selection
	if item.Namespace != "" && !c.plan.all && !s.IncludesNamespace(item.Namespace) {
		return false
	}
	if !c.plan.filtered {
		return !excluded(item)
	}
	labels, err := item.Labels()
	return err == nil && s.MatchesLabels(labels) && !selection.ExcludedByLabel(labels)
}

// excluded reports whether an object carries one of the labels that keep it
// out of every backup. Labels are decoded only where they might.
func excluded(item list.Item) bool {
	if item.RawLabels == nil || !bytes.Contains(item.RawLabels, []byte("exclude-from-backup")) {
		return false
	}
	labels, err := item.Labels()
	return err == nil && selection.ExcludedByLabel(labels)
}
