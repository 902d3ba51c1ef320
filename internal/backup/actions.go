// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// action is an item action in a run.
type action struct {
	itemaction.Action
	// ready is closed when the action may be asked; failed is set before that.
	ready  chan struct{}
	failed bool
}

// prepareActions finds out which actions matter to this run and lets them get
// ready, beside everything else. The caller waits for the group.
func (r *run) prepareActions(ctx context.Context) *sync.WaitGroup {
	var wg sync.WaitGroup
	for _, candidate := range r.engine.opts.Actions() {
		if !r.matters(candidate) {
			continue
		}
		a := &action{Action: candidate, ready: make(chan struct{})}
		r.actions = append(r.actions, a)
		preparer, ok := candidate.(itemaction.Preparer)
		if !ok {
			close(a.ready)
			continue
		}
		wg.Go(func() {
			defer close(a.ready)
			if err := preparer.Prepare(ctx, reader{r}); err != nil {
				a.failed = true
				r.actionFailed(ctx, a, results.Run(), fmt.Errorf("preparing item action %s: %w", a.Name(), err))
			}
		})
	}
	return &wg
}

// matters reports whether an action can have an effect on this backup.
func (r *run) matters(a itemaction.Action) bool {
	adds := a.Adds()
	return adds == nil || r.mayAdd(adds)
}

// mayAdd reports whether a resource can be in the backup of which not every
// object is in it anyway.
func (r *run) mayAdd(resources []schema.GroupResource) bool {
	for _, gr := range resources {
		resource, served := r.plan.cluster.For(gr)
		if !served {
			continue
		}
		switch r.plan.selection.Resource(gr, resource.Namespaced) {
		case selection.RelatedOnly:
			return true
		case selection.Included:
			if r.plan.filtered {
				return true
			}
		case selection.Excluded:
		}
	}
	return false
}

// actionsFor returns the actions that the objects of a resource are shown to.
func (r *run) actionsFor(resource discovery.Resource) []*action {
	var out []*action
	for _, a := range r.actions {
		if a.AppliesTo(resource.GroupResource()) {
			out = append(out, a)
		}
	}
	return out
}

// offer shows objects that are on their way into the archive to the actions
// and notes what follows from that. Objects that an action failed on are taken
// out of the batch. The error is that the run has ended.
func (c *collection) offer(ctx context.Context, batch *list.Batch) error {
	for _, a := range c.actions {
		select {
		case <-a.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	kept := batch.Items[:0]
	namespace := ""
	for _, item := range batch.Items {
		if !c.act(ctx, &item) {
			continue
		}
		kept = append(kept, item)
		if item.Namespace != namespace {
			namespace = item.Namespace
			c.inhabited.LoadOrStore(namespace, struct{}{})
		}
		c.noteVolume(item)
	}
	batch.Items = kept
	return nil
}

// act shows one object to the actions and reports whether all went well.
func (c *collection) act(ctx context.Context, item *list.Item) bool {
	for _, a := range c.actions {
		if a.failed {
			continue
		}
		result, err := a.Execute(ctx, itemaction.Item{
			Resource:  c.resource.GVR,
			Namespace: item.Namespace,
			Name:      item.Name,
			JSON:      item.JSON,
		})
		if err != nil {
			c.actionFailed(ctx, a, results.Object(item.Namespace), fmt.Errorf(
				"%s %q is missing from this backup: item action %s: %w",
				c.resource.GroupResource(), item.Key, a.Name(), err))
			return false
		}
		if result.JSON != nil {
			item.JSON = result.JSON
		}
		c.related.add(c.resource.GroupResource(), item.Key, result.Related)
	}
	return true
}

func (r *run) actionFailed(ctx context.Context, a *action, scope results.Scope, err error) {
	if ctx.Err() != nil {
		return
	}
	r.results.Error(scope, err)
	logr.FromContextOrDiscard(ctx).Error(err, "Failed running an item action", "action", a.Name())
}

// reader reads for actions, outside of the limits that collections are under,
// because those wait for the actions.
type reader struct{ run *run }

// ListAll implements itemaction.Reader.
func (r reader) ListAll(ctx context.Context, gr schema.GroupResource) ([]list.Item, error) {
	resource, served := r.run.plan.cluster.For(gr)
	if !served {
		return nil, nil
	}
	var items []list.Item
	_, err := r.run.cluster.List(ctx, list.Request{
		Kind:            kindOf(resource),
		ResourceVersion: r.run.plan.versionFor(gr),
		Places:          list.NewPlaces(1, 1),
	}, list.Handler{Batch: func(batch *list.Batch) error {
		items = batch.AppendTo(items)
		batch.Release()
		return nil
	}})
	return items, err
}
