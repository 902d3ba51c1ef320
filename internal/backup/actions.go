// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	// external is the same action if it is one, else nil.
	external itemaction.External
	// ready is closed when the action may be asked; failed is set before that.
	ready  chan struct{}
	failed bool
}

// prepareActions finds out which actions matter to this run and lets them get
// ready, beside everything else. The caller waits for the group. Those of plugins
// are asked at the same time which objects concern them; it returns when they have
// answered.
func (r *run) prepareActions(ctx context.Context) *sync.WaitGroup {
	var prepared, chosen sync.WaitGroup
	for _, candidate := range slices.Concat(r.engine.opts.Actions(), r.req.Actions) {
		if !r.matters(candidate) {
			continue
		}
		a := &action{Action: candidate, ready: make(chan struct{})}
		r.actions = append(r.actions, a)
		switch candidate := candidate.(type) {
		case itemaction.Preparer:
			prepared.Go(func() { r.prepare(ctx, a, candidate) })
		case itemaction.External:
			a.external = candidate
			chosen.Go(func() { r.choose(ctx, a) })
		default:
			close(a.ready)
		}
	}
	chosen.Wait()
	return &prepared
}

// prepare lets an action look at the cluster.
func (r *run) prepare(ctx context.Context, a *action, preparer itemaction.Preparer) {
	defer close(a.ready)
	if err := preparer.Prepare(ctx, reader{r}); err != nil {
		a.failed = true
		r.actionFailed(ctx, a, results.Run(), fmt.Errorf("preparing item action %s: %w", a.Name(), err))
	}
}

// choose asks an action of a plugin which objects concern it.
func (r *run) choose(ctx context.Context, a *action) {
	defer close(a.ready)
	err := a.external.Choose(ctx, r.plan.cluster)
	if err == nil {
		return
	}
	a.failed = true
	var leftOut *itemaction.LeftOutError
	if !errors.As(err, &leftOut) {
		r.actionFailed(ctx, a, results.Run(), fmt.Errorf("backing up without an item action: %w", err))
		return
	}
	r.results.Warn(results.Run(), leftOut.Reason)
	logr.FromContextOrDiscard(ctx).Info("Leaving out an item action", "action", a.Name(), "reason", leftOut.Reason)
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
			if r.plan.filtered || r.req.only() {
				return true
			}
		case selection.Excluded:
		}
	}
	return false
}

// chain are the actions that the objects of a resource are shown to, in order.
type chain struct {
	// quick are those before the first one of a plugin. They are asked about one
	// object after another: that costs less than to do it at once.
	quick []*step
	// rest are the others. They are asked about several objects at once.
	rest []*step
}

// step is an action and what came of showing it the objects of one resource.
type step struct {
	*action
	resource                        schema.GroupResource
	shown, changed, skipped, failed atomic.Int64
	// took is the time of all calls together, of external actions only.
	took atomic.Int64
}

// actionsFor returns the actions that the objects of a resource are shown to.
func (r *run) actionsFor(resource discovery.Resource) chain {
	var out chain
	for _, a := range r.actions {
		if a.external != nil && a.failed || !a.AppliesTo(resource.GroupResource()) {
			continue
		}
		s := &step{action: a, resource: resource.GroupResource()}
		if a.external == nil && len(out.rest) == 0 {
			out.quick = append(out.quick, s)
		} else {
			out.rest = append(out.rest, s)
		}
	}
	r.told.addSteps(out)
	return out
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
