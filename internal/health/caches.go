// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health

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

// retryInterval is the time between attempts to find a kind that is not served.
const retryInterval = time.Second

// Caches is a Runnable of a manager and a readiness check. Cache and Kinds are
// required.
type Caches struct {
	Cache cache.Cache
	// Kinds are the kinds that the operator works with.
	Kinds []client.Object
	// Retry replaces retryInterval.
	Retry time.Duration

	synced atomic.Bool
}

var (
	_ manager.Runnable               = (*Caches)(nil)
	_ manager.LeaderElectionRunnable = (*Caches)(nil)
)

// Start fills the caches. It returns when they are filled, or when ctx is done.
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

// waitForInformer waits until the cache has the objects of a kind. It also waits for the kind
// itself, because definitions and operator are commonly applied together. It returns false if ctx
// is done before.
func (c *Caches) waitForInformer(ctx context.Context, kind client.Object) bool {
	again := time.NewTicker(c.Retry)
	defer again.Stop()
	for {
		_, err := c.Cache.GetInformer(ctx, kind)
		if err == nil {
			return true
		}
		ctrl.LoggerFrom(ctx).Info("Waiting for a kind to be served", "kind", fmt.Sprintf("%T", kind), "reason", err.Error())
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
}

// NeedLeaderElection returns false: a standby operator has caches, too.
func (*Caches) NeedLeaderElection() bool { return false }

var errCachesNotSynced = errors.New("the caches are not filled yet")

// Check returns an error until the caches are filled. It is a healthz.Checker.
func (c *Caches) Check(*http.Request) error {
	if !c.synced.Load() {
		return errCachesNotSynced
	}
	return nil
}
