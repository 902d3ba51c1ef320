// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// nameForwarder tells the reconciler about Plugins to which something happened: their process
// ended by itself, or the connection to them, for one. It is a part of the manager, so that it ends with it.
type nameForwarder struct {
	names   <-chan string
	handle  func(ctx context.Context, name string)
	enqueue func(types.NamespacedName)
}

// Start forwards until ctx is done.
func (e nameForwarder) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-e.names:
			e.handle(ctx, name)
			e.enqueue(types.NamespacedName{Name: name})
		}
	}
}

// loadBackoff remembers when a plugin may be loaded again that could not be loaded, or
// that ended.
type loadBackoff struct {
	initial, limit time.Duration
	now            func() time.Time

	mu        sync.Mutex
	histories map[string]loadHistory
}

// crashLoopThreshold is how often a plugin ends, without a long time between, that cannot be relied
// on.
const crashLoopThreshold = 4

// loadHistory is what happened to one generation of a Plugin.
type loadHistory struct {
	id string
	// failures counts loads that failed in a row, ends how often what had been loaded ended by
	// itself, without a long time between. A load that does well tells nothing of the ends:
	// a process that starts well may end again at once.
	failures, exits int
	// nextLoad is when the last pause is over.
	nextLoad time.Time
	// lastEvent is when something of all this happened.
	lastEvent time.Time
}

func newLoadBackoff(first, most time.Duration) *loadBackoff {
	return &loadBackoff{initial: first, limit: most, now: time.Now, histories: map[string]loadHistory{}}
}

// loadHistoryFor returns what happened to a load; nothing if that was another generation.
func (b *loadBackoff) loadHistoryFor(name, id string) loadHistory {
	if a := b.histories[name]; a.id == id {
		return a
	}
	return loadHistory{id: id}
}

// recordFailure notes that a load failed.
func (b *loadBackoff) recordFailure(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.loadHistoryFor(name, id)
	a.failures++
	a.lastEvent = b.now()
	a.nextLoad = a.lastEvent.Add(b.backoffDelay(a.failures))
	b.histories[name] = a
}

// recordSuccess notes that a load did well, at a time: what happened since still counts.
func (b *loadBackoff) recordSuccess(name, id string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.loadHistoryFor(name, id)
	if a.lastEvent.After(at) {
		return
	}
	a.failures, a.nextLoad, a.lastEvent = 0, time.Time{}, b.now()
	b.histories[name] = a
}

// recordExit notes that the process of a plugin ended by itself, or the connection to it. The
// first time, and if nothing happened for long before, that costs no pause.
func (b *loadBackoff) recordExit(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.loadHistoryFor(name, id)
	now := b.now()
	if now.Sub(a.lastEvent) >= b.limit {
		a.exits = 0
	}
	a.lastEvent, a.nextLoad = now, now.Add(b.backoffDelay(a.exits))
	a.exits++
	b.histories[name] = a
}

// backoffDelay returns the pause after the n-th failure in a row.
func (b *loadBackoff) backoffDelay(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(b.initial<<min(n-1, 20), b.limit)
}

// remainingDelay returns how long the next load is away, zero or less if it may begin.
func (b *loadBackoff) remainingDelay(name, id string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loadHistoryFor(name, id).nextLoad.Sub(b.now())
}

// isCrashLooping reports whether a plugin ended so often that it cannot be relied on. What serves
// one elsewhere may be replaced pod by pod, and a call starts or reaches it in any case.
func (b *loadBackoff) isCrashLooping(name, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loadHistoryFor(name, id).exits >= crashLoopThreshold
}

func (b *loadBackoff) forgetPlugin(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.histories, name)
}
