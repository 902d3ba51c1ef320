// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"sync"
	"time"
)

// DueTracker tracks when recorded times are due, by the monotonic clock of this process. The zero
// DueTracker is ready to use. It is safe for concurrent use.
type DueTracker[K comparable] struct {
	mu      sync.Mutex
	entries map[K]entry
}

type entry struct{ recorded, due time.Time }

// TimeUntilDue returns how long to wait for a recorded time, at most most from the first call with
// that time. It is not positive when the wait is over.
func (t *DueTracker[K]) TimeUntilDue(key K, recorded time.Time, most time.Duration, now time.Time) time.Duration {
	left := min(recorded.Sub(now), most)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.entries[key]
	if !ok || !known.recorded.Equal(recorded) {
		if t.entries == nil {
			t.entries = map[K]entry{}
		}
		known = entry{recorded: recorded, due: now.Add(left)}
		t.entries[key] = known
	}
	return min(left, known.due.Sub(now))
}

// Forget drops the entry of a key.
func (t *DueTracker[K]) Forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}
