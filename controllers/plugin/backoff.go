// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// exits tells the reconciler about processes that ended by themselves. It is a
// part of the manager, so that it ends with it.
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

// backoff remembers when a failed load may be tried again.
type backoff struct {
	first, most time.Duration
	now         func() time.Time

	mu    sync.Mutex
	tries map[string]attempt
}

type attempt struct {
	id   string
	n    int
	next time.Time
}

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{first: first, most: most, now: time.Now, tries: map[string]attempt{}}
}

// remaining returns how long the next try of a load is away. The first question
// after a failure sets the time; when it has come, the answer is zero once.
func (b *backoff) remaining(name, id string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.tries[name]
	if a.id != id {
		a = attempt{id: id}
	}
	now := b.now()
	if a.next.IsZero() {
		a.n++
		a.next = now.Add(min(b.first<<min(a.n-1, 20), b.most))
	}
	left := a.next.Sub(now)
	if left <= 0 {
		a.next = time.Time{}
	}
	b.tries[name] = a
	return left
}

func (b *backoff) reset(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tries, name)
}
