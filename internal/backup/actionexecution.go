// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// runActions calls the actions for the objects of a batch and records the results. It
// removes objects for which an action failed from the batch; the others keep their order.
// It returns an error if the run has ended.
func (c *collection) runActions(ctx context.Context, batch *rawclient.Batch) error {
	for _, s := range slices.Concat(c.actions.sequential, c.actions.concurrent) {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	kept := batch.Items[:0]
	for _, item := range batch.Items {
		if c.runActionsOn(ctx, c.actions.sequential, &item) {
			kept = append(kept, item)
		}
	}
	kept, err := c.runActionsConcurrently(ctx, kept)
	if err != nil {
		return err
	}
	namespace := ""
	for _, item := range kept {
		if item.Namespace != namespace {
			namespace = item.Namespace
			c.nonEmptyNamespaces.LoadOrStore(namespace, struct{}{})
		}
		c.recordClaim(item)
		c.recordPodHooks(item)
	}
	batch.Items = kept
	return nil
}

// runActionsConcurrently calls the concurrent actions for several objects at a time, and
// returns the objects without errors. The run has a number of slots for that, for all kinds
// together, so that a plugin never gets more concurrent calls than configured.
func (c *collection) runActionsConcurrently(ctx context.Context, items []rawclient.Item) ([]rawclient.Item, error) {
	if len(c.actions.concurrent) == 0 {
		return items, nil
	}
	lost := make([]bool, len(items))
	var wg sync.WaitGroup
	for i := range items {
		shownTo, err := c.matchingActions(items[i])
		if err != nil {
			c.recordItemError(ctx, &items[i], err)
			lost[i] = true
		}
		if len(shownTo) == 0 {
			continue
		}
		select {
		case c.actionSlots <- struct{}{}:
		case <-ctx.Done():
			wg.Wait() // the memory of the items is released after this
			return nil, context.Cause(ctx)
		}
		wg.Go(func() {
			defer func() { <-c.actionSlots }()
			lost[i] = !c.runActionsOn(ctx, shownTo, &items[i])
		})
	}
	wg.Wait()
	kept := items[:0]
	for i, item := range items {
		if !lost[i] {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// matchingActions returns the concurrent actions that handle an object. It uses the labels
// in the cluster: changes by one action do not hide the object from another.
func (c *collection) matchingActions(item rawclient.Item) (out []*resourceAction, err error) {
	defer panics.Recover(&err)
	labels := func() map[string]string {
		set, _ := item.Labels() // the API server has validated them
		return set
	}
	for _, s := range c.actions.concurrent {
		if s.external == nil || s.external.Matches(item.Namespace, labels) {
			out = append(out, s)
		}
	}
	return out, nil
}

// runActionsOn calls actions for one object, one after the other, and reports whether to
// archive the object.
func (c *collection) runActionsOn(ctx context.Context, steps []*resourceAction, item *rawclient.Item) (archived bool) {
	if len(steps) == 0 {
		return true
	}
	err := recoverPanic(func() error {
		archived = c.applyActions(ctx, steps, item)
		return nil
	})
	if err != nil {
		c.recordItemError(ctx, item, err)
		return false
	}
	return archived
}

func (c *collection) applyActions(ctx context.Context, steps []*resourceAction, item *rawclient.Item) (archived bool) {
	for _, s := range steps {
		if s.runnableAction.failed {
			continue
		}
		s.executed.Add(1)
		result, err := s.executeTimed(ctx, c.newActionItem(item))
		if incomplete := (*itemaction.RelatedItemsError)(nil); errors.As(err, &incomplete) {
			s.failed.Add(1)
			c.recordActionError(ctx, s.runnableAction, c.subject(item.Namespace, item.Name), fmt.Errorf(
				"what belongs with %s %q may be missing from this backup: item action %s: %w",
				c.resource.GroupResource(), item.Key, s.Name(), err))
			continue
		}
		if err != nil {
			s.failed.Add(1)
			c.recordActionError(ctx, s.runnableAction, c.subject(item.Namespace, item.Name), fmt.Errorf(
				"%s %q is missing from this backup: item action %s: %w",
				c.resource.GroupResource(), item.Key, s.Name(), err))
			c.recordMissingClaim(item)
			return false
		}
		c.recordActionResult(ctx, s, item, result)
		if result.Skip != "" {
			s.skipped.Add(1)
			logr.FromContextOrDiscard(ctx).Info("Skipping an object", "resource", c.resource.GroupResource().String(),
				"name", item.Key, "action", s.Name(), "reason", result.Skip)
			return false
		}
		if result.JSON != nil {
			s.changed.Add(1)
			item.JSON = result.JSON
		}
		c.addRelatedItems(s, item, result.RelatedItems)
	}
	return true
}

// newActionItem returns an object as actions get it.
func (c *collection) newActionItem(item *rawclient.Item) itemaction.BackupItem {
	return itemaction.BackupItem{Resource: c.resource.GVR, Namespace: item.Namespace, Name: item.Name, JSON: item.JSON}
}

// executeTimed measures the time of actions of plugins; for others it is not worth the
// cost.
func (s *resourceAction) executeTimed(ctx context.Context, item itemaction.BackupItem) (result itemaction.Result, err error) {
	defer panics.Recover(&err)
	if s.external == nil {
		return s.Execute(ctx, item)
	}
	start := time.Now()
	result, err = s.Execute(ctx, item)
	s.duration.Add(int64(time.Since(start)))
	return result, err
}

// recordActionResult records the parts of a result that do not change the object.
func (c *collection) recordActionResult(ctx context.Context, s *resourceAction, item *rawclient.Item, result itemaction.Result) {
	subject := c.subject(item.Namespace, item.Name)
	about := func() string {
		return fmt.Sprintf("%s %q: item action %s: ", c.resource.GroupResource(), item.Key, s.Name())
	}
	for _, warning := range result.Warnings {
		c.results.Warn(subject, results.ReasonItemActionWarning, about()+warning)
	}
	for _, warning := range c.reports.addBackupLabels(result.BackupLabels) {
		c.results.Warn(subject, results.ReasonItemActionWarning, about()+warning)
	}
	if result.Operation == nil {
		if result.DataNotCaptured != "" {
			c.claims.addReason(itemKey{c.resource.GVR, item.Namespace, item.Name}, result.DataNotCaptured)
		}
		return
	}
	if err := c.recordOrCancelOperation(ctx, s, item, *result.Operation); err != nil {
		err = fmt.Errorf("%s%w", about(), err)
		c.recordError(subject, results.ReasonItemActionFailed, err)
		logr.FromContextOrDiscard(ctx).Error(err, "No run waits for the operation of an item action")
	}
}
