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
// ended by itself, for one. It is a part of the manager, so that it ends with it.
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
// whose process ended.
type backoff struct {
	first, most time.Duration
	now         func() time.Time

	mu    sync.Mutex
	tries map[string]attempt
}

// attempt is what happened to one generation of a Plugin.
type attempt struct {
	id string
	// n counts failures in a row, next is when the last one is over.
	n    int
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
	a.n++
	a.last = b.now()
	a.next = a.last.Add(b.after(a.n))
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
	a.next, a.last = time.Time{}, b.now()
	b.tries[name] = a
}

// ended notes that the process of a plugin ended by itself. The first time, and
// if nothing happened for long before, that costs no pause.
func (b *backoff) ended(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(name, id)
	now := b.now()
	if now.Sub(a.last) >= b.most {
		a.n = 0
	}
	a.last, a.next = now, now.Add(b.after(a.n))
	a.n++
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

func (b *backoff) reset(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tries, name)
}
