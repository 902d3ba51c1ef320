// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"sync"
)

// keyedMutex is a set of locks, one per key that is in use.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// waitAndLockKey waits until key is unlocked or ctx ends. It returns the function that
// unlocks the key.
func (k *keyedMutex) waitAndLockKey(ctx context.Context, key string) (func(), error) {
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		busy, taken := k.held[key]
		if !taken {
			free := make(chan struct{})
			k.held[key] = free
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(free)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
