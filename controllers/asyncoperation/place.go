// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"sync"
)

// places bounds the calls of each plugin that go on at a time. It is safe for concurrent
// use.
type places struct {
	// size is how many a plugin has.
	size int

	mu    sync.Mutex
	taken map[string]chan struct{}
}

// take waits for a place, and returns what leaves it. It fails only with ctx.
func (p *places) take(ctx context.Context, plugin string) (leave func(), err error) {
	p.mu.Lock()
	taken := p.taken[plugin]
	if taken == nil {
		if p.taken == nil {
			p.taken = map[string]chan struct{}{}
		}
		taken = make(chan struct{}, p.size)
		p.taken[plugin] = taken
	}
	p.mu.Unlock()
	select {
	case taken <- struct{}{}:
		return func() { <-taken }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
