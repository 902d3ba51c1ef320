// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// exits tells the reconciler about Plugins to which something happened: their process
// ended by itself, or the connection to them, for one. It is a part of the manager, so that it ends with it.
type exits struct {
	names <-chan string
	told  func(ctx context.Context, name string)
	wake  func(types.NamespacedName)
}

// Start forwards until ctx is done.
func (e exits) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-e.names:
			e.told(ctx, name)
			e.wake(types.NamespacedName{Name: name})
		}
	}
}

// backoff remembers when a plugin may be loaded again that could not be loaded, or
// that ended.
type backoff struct {
	first, most time.Duration
	now         func() time.Time

	mu    sync.Mutex
	tries map[string]attempt
}

// loopingEnds is how often a plugin ends, without a long time between, that cannot be relied
// on.
const loopingEnds = 4

// attempt is what happened to one generation of a Plugin.
type attempt struct {
	id string
	// failures counts loads that failed in a row, ends how often what had been loaded ended by
	// itself, without a long time between. A load that does well tells nothing of the ends:
	// a process that starts well may end again at once.
	failures, ends int
	// next is when the last pause is over.
	next time.Time
	// last is when something of all this happened.
	last time.Time
}

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{first: first, most: most, now: time.Now, tries: map[string]attempt{}}
}

// of returns what happened to a load; nothing if that was another generation.
func (b *backoff) of(name, id string) attempt {
	if a := b.tries[name]; a.id == id {
		return a
	}
	return attempt{id: id}
}

// failed notes that a load failed.
func (b *backoff) failed(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(name, id)
	a.failures++
	a.last = b.now()
	a.next = a.last.Add(b.after(a.failures))
	b.tries[name] = a
}

// succeeded notes that a load did well, at a time: what happened since still counts.
func (b *backoff) succeeded(name, id string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(name, id)
	if a.last.After(at) {
		return
	}
	a.failures, a.next, a.last = 0, time.Time{}, b.now()
	b.tries[name] = a
}

// ended notes that the process of a plugin ended by itself, or the connection to it. The
// first time, and if nothing happened for long before, that costs no pause.
func (b *backoff) ended(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(name, id)
	now := b.now()
	if now.Sub(a.last) >= b.most {
		a.ends = 0
	}
	a.last, a.next = now, now.Add(b.after(a.ends))
	a.ends++
	b.tries[name] = a
}

// after returns the pause after the n-th failure in a row.
func (b *backoff) after(n int) time.Duration {
	if n < 1 {
		return 0
	}
	return min(b.first<<min(n-1, 20), b.most)
}

// remaining returns how long the next load is away, zero or less if it may begin.
func (b *backoff) remaining(name, id string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(name, id).next.Sub(b.now())
}

// looping reports whether a plugin ended so often that it cannot be relied on. What serves
// one elsewhere may be replaced pod by pod, and a call starts or reaches it in any case.
func (b *backoff) looping(name, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(name, id).ends >= loopingEnds
}

func (b *backoff) reset(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tries, name)
}
