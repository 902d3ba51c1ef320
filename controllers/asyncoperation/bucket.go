// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"sync"
	"time"
)

// tokenBucket limits a rate, with a burst. It is safe for concurrent use.
type tokenBucket struct {
	// tokenInterval is the time in which one token is added, and refillTime the time in which an
	// empty bucket becomes full.
	tokenInterval, refillTime time.Duration

	mu sync.Mutex
	// fullAt is when the bucket will be full again.
	fullAt time.Time
}

// newTokenBucket returns a full bucket.
func newTokenBucket(perSecond float64, burst int) tokenBucket {
	each := time.Duration(float64(time.Second) / perSecond)
	return tokenBucket{tokenInterval: each, refillTime: each * time.Duration(burst)}
}

// takeToken takes a token, if one is available now.
func (b *tokenBucket) takeToken(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nextTokenTime(now).After(now) {
		return false
	}
	b.fullAt = b.fullAt.Add(b.tokenInterval)
	return true
}

// reserveToken takes a token and returns when it may be used. Later callers wait
// longer.
func (b *tokenBucket) reserveToken(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.nextTokenTime(now)
	b.fullAt = b.fullAt.Add(b.tokenInterval)
	return turn
}

// nextTokenTime returns when a token is available, which is now if there is one.
func (b *tokenBucket) nextTokenTime(now time.Time) time.Time {
	if b.fullAt.Before(now) {
		b.fullAt = now
	}
	if turn := b.fullAt.Add(b.tokenInterval - b.refillTime); turn.After(now) {
		return turn
	}
	return now
}
