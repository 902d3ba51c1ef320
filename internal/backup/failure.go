// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// recoverPanic calls f and returns a panic as an error.
func recoverPanic(f func() error) (err error) {
	defer panics.Recover(&err)
	return f()
}

// logPanicStack writes the stack of an error that was a panic to the log of the operator.
// It is not useful in the results of a backup.
func (r *enginePass) logPanicStack(err error) {
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		r.engine.opts.Log.Error(err, "Recovered from a panic of a backup", "stack", string(panicked.Stack))
	}
}

// recordError records an error.
func (r *enginePass) recordError(about results.Subject, reason string, err error) {
	r.logPanicStack(err)
	r.results.Error(about, reason, err)
}

// subject names an object of the collected resource, or the resource if name is empty.
func (c *collection) subject(namespace, name string) results.Subject {
	return results.About(c.resource.GroupResource(), namespace, name)
}

// recordItemError records that an object is not in the archive.
func (c *collection) recordItemError(ctx context.Context, item *rawclient.Item, err error) {
	if ctx.Err() != nil {
		return // the error of the run has the reason
	}
	err = fmt.Errorf("%s %q is missing from this backup: %w", c.resource.GroupResource(), item.Key, err)
	c.recordError(c.subject(item.Namespace, item.Name), results.ReasonNotBackedUp, err)
	c.recordMissingClaim(item)
	logr.FromContextOrDiscard(ctx).Error(err, "Failed backing up an object")
}

// recordRefusedItem records that a listed object cannot be read, unless it is not selected.
// Unknown properties count as selected. A restarted LIST returns an object twice.
func (c *collection) recordRefusedItem(ctx context.Context, refused *rawclient.RefusedError) {
	item := &refused.Item
	if item.Key == "" {
		c.recordListError(ctx, "", fmt.Errorf("an object of %s: %w", c.resource.GroupResource(), refused.Reason))
		return
	}
	if selected, err := c.shouldArchive(item); err == nil && !selected {
		return
	}
	if _, twice := c.refusedKeys.LoadOrStore(item.Key, struct{}{}); twice {
		return
	}
	c.failed.Store(true)
	c.recordItemError(ctx, item, fmt.Errorf("it cannot be read: %w; fix the object, or exclude it with the label %s=true",
		refused.Reason, selection.GrapnelExcludeLabel))
}
