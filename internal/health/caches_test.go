// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/health"
)

// kinds is a cache whose kinds are served when a test says so.
type kinds struct {
	cache.Cache
	served atomic.Bool
	asked  chan struct{}
}

// GetInformer fails until the kinds are served.
func (k *kinds) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	select {
	case k.asked <- struct{}{}:
	default:
	}
	if !k.served.Load() {
		return nil, errors.New("no matches for kind Backup")
	}
	return nil, nil //nolint:nilnil // the result is not used
}

func TestCaches(t *testing.T) {
	t.Parallel()
	served := &kinds{asked: make(chan struct{}, 1)}
	c := &health.Caches{Cache: served, Kinds: []client.Object{&v1alpha1.Backup{}, &v1alpha1.Restore{}}, Retry: time.Millisecond}
	if c.NeedLeaderElection() {
		t.Error("a standby operator is never ready")
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(t.Context()) }()
	<-served.asked
	if c.Check(nil) == nil {
		t.Error("ready before the caches are filled")
	}
	served.served.Store(true)
	if err := <-ended; err != nil || c.Check(nil) != nil {
		t.Errorf("Start: %v, Check: %v; want ready", err, c.Check(nil))
	}
}

func TestCaches_Stopped(t *testing.T) {
	t.Parallel()
	served := &kinds{asked: make(chan struct{}, 1)}
	c := &health.Caches{Cache: served, Kinds: []client.Object{&v1alpha1.Backup{}}, Retry: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	<-served.asked
	cancel()
	if err := <-ended; err != nil || c.Check(nil) == nil {
		t.Errorf("Start: %v, Check: %v; want no error and not ready", err, c.Check(nil))
	}
}
