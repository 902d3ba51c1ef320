// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

// nameForwarder sends events for Plugins to the reconciler, for example when their process or
// connection ended by itself. It is a Runnable of the manager and ends with it.
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

// loadBackoff records when a plugin that could not be loaded, or that ended, may be loaded
// again.
type loadBackoff struct {
	delays wait.Backoff
	now    func() time.Time

	mu        sync.Mutex
	histories map[string]loadHistory
}

// crashLoopThreshold is the number of ends in short succession after which a plugin counts as
// crash-looping.
const crashLoopThreshold = 4

// loadHistory has the load and exit events of one generation of a Plugin.
type loadHistory struct {
	id string
	// failures counts failed loads in a row. exits counts how often the loaded plugin ended by
	// itself in short succession. A successful load does not reset exits: a process that
	// starts successfully may end again immediately.
	failures, exits int
	// nextLoad is when the last back-off ends.
	nextLoad time.Time
	// lastEvent is the time of the last of these events.
	lastEvent time.Time
}

func newLoadBackoff(first, most time.Duration) *loadBackoff {
	return &loadBackoff{delays: wait.Backoff{Duration: first, Factor: 2, Cap: most}, now: time.Now, histories: map[string]loadHistory{}}
}

// loadHistoryFor returns the history of a load, which is empty if it was of another
// generation.
func (b *loadBackoff) loadHistoryFor(name, id string) loadHistory {
	if a := b.histories[name]; a.id == id {
		return a
	}
	return loadHistory{id: id}
}

// recordFailure records a failed load.
func (b *loadBackoff) recordFailure(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.loadHistoryFor(name, id)
	a.failures++
	a.lastEvent = b.now()
	a.nextLoad = a.lastEvent.Add(backoff.Delay(b.delays, a.failures))
	b.histories[name] = a
}

// recordSuccess records a successful load at a time: events since then still count.
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

// recordExit records that the process of a plugin, or the connection to it, ended by itself.
// The first exit, and one after a long time without events, causes no back-off.
func (b *loadBackoff) recordExit(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.loadHistoryFor(name, id)
	now := b.now()
	if now.Sub(a.lastEvent) >= b.delays.Cap {
		a.exits = 0
	}
	a.lastEvent, a.nextLoad = now, now.Add(backoff.Delay(b.delays, a.exits))
	a.exits++
	b.histories[name] = a
}

// remainingDelay returns the time until the next load, zero or less if it may begin.
func (b *loadBackoff) remainingDelay(name, id string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loadHistoryFor(name, id).nextLoad.Sub(b.now())
}

// isCrashLooping reports whether a plugin ended too often. The Pods that serve a plugin at an
// address may be replaced one by one, and a call starts or connects to it in any case.
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
