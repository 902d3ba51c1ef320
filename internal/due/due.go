// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package due bounds waits for times that are recorded in objects. A wall clock that is set back,
// or was ahead when a time was recorded, would make such a wait as long as it was wrong.
package due

import (
	"sync"
	"time"
)

// Tracker remembers until when to wait for recorded times, by the clock of this process, which cannot
// be set. The zero Times is ready. It is safe for concurrent use.
type Tracker[K comparable] struct {
	mu      sync.Mutex
	entries map[K]entry
}

type entry struct{ recorded, due time.Time }

// TimeUntilDue returns how long to wait for a recorded time: no longer than most since it was first asked
// for. It is not positive when the wait is over.
func (t *Tracker[K]) TimeUntilDue(key K, recorded time.Time, most time.Duration, now time.Time) time.Duration {
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

// Forget drops what is remembered for a key.
func (t *Tracker[K]) Forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}
