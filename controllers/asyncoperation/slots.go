// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"sync"
)

// callSlots limits the concurrent calls of each plugin. It is safe for concurrent use.
type callSlots struct {
	// perPlugin is the number of slots of a plugin.
	perPlugin int

	mu       sync.Mutex
	byPlugin map[string]chan struct{}
}

// acquireSlot waits for a slot, and returns the function that releases it. It returns without a
// slot when the channel hurry, if there is one, is closed. It fails only with ctx.
func (p *callSlots) acquireSlot(ctx context.Context, plugin string, hurry <-chan struct{}) (leave func(), taken bool, err error) {
	p.mu.Lock()
	places := p.byPlugin[plugin]
	if places == nil {
		if p.byPlugin == nil {
			p.byPlugin = map[string]chan struct{}{}
		}
		places = make(chan struct{}, p.perPlugin)
		p.byPlugin[plugin] = places
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
