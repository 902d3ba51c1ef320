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

// take waits for a place, and returns what leaves it. It gives up when the channel hurry,
// if there is one, is closed, and then has not taken one. It fails only with ctx.
func (p *places) take(ctx context.Context, plugin string, hurry <-chan struct{}) (leave func(), taken bool, err error) {
	p.mu.Lock()
	places := p.taken[plugin]
	if places == nil {
		if p.taken == nil {
			p.taken = map[string]chan struct{}{}
		}
		places = make(chan struct{}, p.size)
		p.taken[plugin] = places
	}
	p.mu.Unlock()
	select {
	case <-hurry:
		return nil, false, nil
	default:
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, true, nil
	case <-hurry:
		return nil, false, nil
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}
