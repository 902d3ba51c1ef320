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
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// runnableAction is an item action in a run.
type runnableAction struct {
	itemaction.BackupAction
	// external is the same action if it is a PluginAction, otherwise nil.
	external itemaction.BackupPluginAction
	// ready is closed when the action may be called; failed is set before that.
	ready  chan struct{}
	failed bool
}

// prepareActions determines which actions are relevant to this run and prepares them,
// concurrently with everything else. The caller waits for the group. At the same time it
// requests the selectors of plugins, and returns when they have answered.
func (r *enginePass) prepareActions(ctx context.Context) *sync.WaitGroup {
	var prepared, chosen sync.WaitGroup
	for _, candidate := range slices.Concat(r.engine.opts.Actions(), r.req.Actions) {
		if !r.isRelevant(candidate) {
			continue
		}
		a := &runnableAction{BackupAction: candidate, ready: make(chan struct{})}
		r.actions = append(r.actions, a)
		switch candidate := candidate.(type) {
		case itemaction.Preparer:
			prepared.Go(func() { r.prepareAction(ctx, a, candidate) })
		case itemaction.BackupPluginAction:
			a.external = candidate
			chosen.Go(func() { r.resolveSelector(ctx, a) })
		default:
			close(a.ready)
		}
	}
	chosen.Wait()
	return &prepared
}

// prepareAction lets an action read from the cluster.
func (r *enginePass) prepareAction(ctx context.Context, a *runnableAction, preparer itemaction.Preparer) {
	defer close(a.ready)
	if err := recoverPanic(func() error { return preparer.Prepare(ctx, clusterReader{r}) }); err != nil {
		a.failed = true
		r.recordActionError(ctx, a, results.Subject{}, fmt.Errorf("preparing item action %s: %w", a.Name(), err))
	}
}

// resolveSelector requests the selector of an action of a plugin.
func (r *enginePass) resolveSelector(ctx context.Context, a *runnableAction) {
	defer close(a.ready)
	err := recoverPanic(func() error { return a.external.ResolveSelector(ctx, r.plan.cluster) })
	if err == nil {
		return
	}
	a.failed = true
	var leftOut *itemaction.SkippedActionError
	if !errors.As(err, &leftOut) {
		r.recordActionError(ctx, a, results.Subject{}, fmt.Errorf("backing up without an item action: %w", err))
		return
	}
	r.results.Warn(results.Subject{}, results.ReasonItemActionSkipped, leftOut.Reason)
	logr.FromContextOrDiscard(ctx).Info("Skipping an item action", "action", a.Name(), "reason", leftOut.Reason)
}

// isRelevant reports whether an action can have an effect on this backup.
func (r *enginePass) isRelevant(a itemaction.BackupAction) bool {
	lister, addsOnly := a.(itemaction.RelatedResourceLister)
	return !addsOnly || r.canAddRelated(lister.RelatedResources())
}

// canAddRelated reports whether one of the resources can be in the backup without all of
// its objects being included anyway.
func (r *enginePass) canAddRelated(resources []schema.GroupResource) bool {
	for _, gr := range resources {
		resource, served := r.plan.cluster.PreferredVersion(gr)
		if !served {
			continue
		}
		switch r.plan.selection.ResourceInclusion(gr, resource.Namespaced) {
		case selection.RelatedOnly:
			return true
		case selection.Included:
			if r.plan.hasLabelSelector || r.req.hasOnlyItems() {
				return true
			}
		case selection.Excluded:
		}
	}
	return false
}

// actionChain has the actions for the objects of a resource, in order.
type actionChain struct {
	// sequential are those before the first one of a plugin. They are called for one object
	// after another, which costs less than concurrent calls.
	sequential []*resourceAction
	// concurrent are the others. They are called for several objects at once.
	concurrent []*resourceAction
}

// resourceAction is an action with its statistics for the objects of one resource.
type resourceAction struct {
	*runnableAction
	resource                           schema.GroupResource
	executed, changed, skipped, failed atomic.Int64
	// duration is the total time of all calls, only for actions of plugins.
	duration atomic.Int64
}

// actionsForResource returns the actions for the objects of a resource.
func (r *enginePass) actionsForResource(resource discovery.Resource) actionChain {
	var out actionChain
	for _, a := range r.actions {
		if a.external != nil && a.failed || !a.AppliesTo(resource.GroupResource()) {
			continue
		}
		s := &resourceAction{runnableAction: a, resource: resource.GroupResource()}
		if a.external == nil && len(out.concurrent) == 0 {
			out.sequential = append(out.sequential, s)
		} else {
			out.concurrent = append(out.concurrent, s)
		}
	}
	r.reports.addResourceActions(out)
	return out
}

func (r *enginePass) recordActionError(ctx context.Context, a *runnableAction, about results.Subject, err error) {
	if ctx.Err() != nil {
		return
	}
	r.recordError(about, results.ReasonItemActionFailed, err)
	logr.FromContextOrDiscard(ctx).Error(err, "Failed running an item action", "action", a.Name())
}

// clusterReader reads for actions, without the limits of collections, because collections
// wait for the actions.
type clusterReader struct{ pass *enginePass }

// ListAll implements itemaction.Reader.
func (r clusterReader) ListAll(ctx context.Context, gr schema.GroupResource) ([]rawclient.Item, error) {
	resource, served := r.pass.plan.cluster.PreferredVersion(gr)
	if !served {
		return nil, nil
	}
	var items []rawclient.Item
	_, err := r.pass.cluster.List(ctx, rawclient.ListRequest{
		ResourceKind:    toListKind(resource),
		ResourceVersion: r.pass.plan.resourceVersionFor(gr),
		Slots:           rawclient.NewSlots(1, 1),
	}, rawclient.Handler{Batch: func(batch *rawclient.Batch) error {
		items = batch.AppendTo(items)
		batch.Release()
		return nil
	}})
	return items, err
}
