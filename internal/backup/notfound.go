// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

const (
	// minMissingDiscoveries is how many consecutive discoveries must not contain a kind
	// that answers 404 before the kind counts as removed: the API servers of a cluster do
	// not learn about a kind at the same moment.
	minMissingDiscoveries = 3
	// maxNotFoundRetries bounds the retries after 404s of one kind in total: an API server
	// that answers 404 in every namespace is not called seven times for each.
	maxNotFoundRetries = 16 * rawclient.MaxAttempts
)

// errResourceRemoved means that the cluster no longer serves a kind, and that none of its
// objects were read.
var errResourceRemoved = errors.New("the cluster no longer serves it")

// isKindNotFound reports whether the API server did not find a kind, as opposed to an
// object of it.
func isKindNotFound(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// listWithRetry reads a LIST. A 404 does not prove that the kind was removed. An API server
// also answers 404 while it is being replaced, or when it does not know a new kind yet, or
// when a proxy cannot reach it. So the LIST is retried until it succeeds, or until
// discovery agrees and no object of the kind was read, which is errResourceRemoved.
func (c *collection) listWithRetry(ctx context.Context, req rawclient.ListRequest, handler rawclient.Handler) (summary rawclient.Summary, err error) {
	err = c.retryUntilFound(ctx, func() error {
		summary, err = c.cluster.List(ctx, req, handler)
		return err
	})
	return summary, err
}

// getWithRetry reads an object, with the same handling of a kind that is not found.
func (c *collection) getWithRetry(ctx context.Context, namespace, name string) (item rawclient.Item, err error) {
	err = c.retryUntilFound(ctx, func() error {
		item, err = c.cluster.Get(ctx, toListKind(c.resource), namespace, name)
		return err
	})
	return item, err
}

func (c *collection) retryUntilFound(ctx context.Context, read func() error) error {
	missing := 0
	for n := 1; ; n++ {
		if c.removed.Load() {
			return errResourceRemoved
		}
		err := read()
		if ctx.Err() != nil || !isKindNotFound(err) {
			return err
		}
		if missing++; c.isResourceServed(ctx) {
			missing = 0
		}
		if missing >= minMissingDiscoveries && c.listed.Load() == 0 {
			c.removed.Store(true)
			return errResourceRemoved
		}
		if n >= rawclient.MaxAttempts || c.notFoundRetries.Add(1) > maxNotFoundRetries {
			return fmt.Errorf("%w, also after %d attempts", err, n)
		}
		logr.FromContextOrDiscard(ctx).Info("Retrying a request for a kind that was not found",
			"resource", c.resource.GVR.String(), "attempt", n, "reason", err.Error())
		if sleepErr := c.engine.opts.Sleep(ctx, rawclient.BackoffDelay(n)); sleepErr != nil {
			return sleepErr
		}
	}
}

// isResourceServed discovers again whether the cluster serves the resource in its version.
// If that is unknown, it counts as served.
func (c *collection) isResourceServed(ctx context.Context) bool {
	now, err := c.cluster.Discover(ctx)
	if err != nil {
		return true
	}
	if _, unknown := now.Failed[c.resource.GVR.GroupVersion()]; unknown {
		return true
	}
	for _, version := range now.Versions[c.resource.GVR.GroupResource()] {
		if version.GVR == c.resource.GVR {
			return true
		}
	}
	return false
}
