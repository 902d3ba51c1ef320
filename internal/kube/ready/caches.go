// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package ready

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// retryInterval is how often a kind that is not served is looked for.
const retryInterval = time.Second

// Caches is a part of a manager and a check of its readiness. Cache and Kinds are
// required.
type Caches struct {
	Cache cache.Cache
	// Kinds are those that the operator works with.
	Kinds []client.Object
	// Retry replaces the second between two looks for a kind that is not served.
	Retry time.Duration

	synced atomic.Bool
}

var (
	_ manager.Runnable               = (*Caches)(nil)
	_ manager.LeaderElectionRunnable = (*Caches)(nil)
)

// Start has the caches filled. It returns when that is done, or ctx is.
func (c *Caches) Start(ctx context.Context) error {
	if c.Retry <= 0 {
		c.Retry = retryInterval
	}
	for _, kind := range c.Kinds {
		if !c.waitForInformer(ctx, kind) {
			return nil
		}
	}
	c.synced.Store(true)
	return nil
}

// waitForInformer waits until the objects of a kind are there, also if the kind itself is not yet:
// definitions and operator are commonly applied together. It returns false if ctx is
// done before.
func (c *Caches) waitForInformer(ctx context.Context, kind client.Object) bool {
	again := time.NewTicker(c.Retry)
	defer again.Stop()
	for {
		_, err := c.Cache.GetInformer(ctx, kind)
		if err == nil {
			return true
		}
		ctrl.LoggerFrom(ctx).Info("Waiting for a kind of Grapnel", "kind", fmt.Sprintf("%T", kind), "reason", err.Error())
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
}

// NeedLeaderElection says that one that stands by has caches, too.
func (*Caches) NeedLeaderElection() bool { return false }

var errCachesNotSynced = errors.New("the caches are not filled yet")

// Check returns an error until the caches are filled. It is a healthz.Checker.
func (c *Caches) Check(*http.Request) error {
	if !c.synced.Load() {
		return errCachesNotSynced
	}
	return nil
}
