// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"sync"
	"time"
)

// bucket bounds how often something is done, with some at once. It is safe for concurrent
// use.
type bucket struct {
	// each is the time in which a token appears, and full the one in which all do.
	each, full time.Duration

	mu sync.Mutex
	// next is when there will be all tokens again.
	next time.Time
}

// newBucket returns a bucket that is full.
func newBucket(perSecond float64, burst int) bucket {
	each := time.Duration(float64(time.Second) / perSecond)
	return bucket{each: each, full: each * time.Duration(burst)}
}

// take takes a token, if there is one now.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn(now).After(now) {
		return false
	}
	b.next = b.next.Add(b.each)
	return true
}

// reserve takes a token and returns when it may be used. Whoever comes later waits
// longer, and takes none before.
func (b *bucket) reserve(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.turn(now)
	b.next = b.next.Add(b.each)
	return turn
}

// turn returns when there is a token; now, if there is one.
func (b *bucket) turn(now time.Time) time.Time {
	if b.next.Before(now) {
		b.next = now
	}
	if turn := b.next.Add(b.each - b.full); turn.After(now) {
		return turn
	}
	return now
}
