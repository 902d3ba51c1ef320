// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// locationState is what is remembered of one location between passes.
type locationState struct {
	// generationID is the UID and generation that it was seen with, "" if it is gone.
	generationID string
	// earlierIDs are the ids whose looks may still be known.
	earlierIDs []string
	// lastSyncEnd is when the last look of this id ended; zero if there was none since the
	// location became available.
	lastSyncEnd time.Time
	// syncRequested is set when something happened that a look should see.
	syncRequested bool
	cache         *Cache
}

// locationStates are all locations. They are safe for concurrent use; what Memory holds belongs to
// the look that runs.
type locationStates struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*locationState
}

func (p *locationStates) getOrCreateState(key types.NamespacedName) *locationState {
	if p.byKey == nil {
		p.byKey = map[types.NamespacedName]*locationState{}
	}
	if p.byKey[key] == nil {
		p.byKey[key] = &locationState{cache: &Cache{}}
	}
	return p.byKey[key]
}

// requestSync has a location looked at soon.
func (p *locationStates) requestSync(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.getOrCreateState(key).syncRequested = true
}

// trackGeneration notes the id of a location, and returns those that it had earlier.
func (p *locationStates) trackGeneration(key types.NamespacedName, id string) (earlier []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.getOrCreateState(key)
	if at.generationID == id {
		return at.earlierIDs
	}
	if at.generationID != "" {
		at.earlierIDs = append(at.earlierIDs, at.generationID)
	}
	// A look of the earlier id may still use its memory.
	at.generationID, at.lastSyncEnd, at.cache = id, time.Time{}, &Cache{}
	return at.earlierIDs
}

// forgetGeneration notes that a look of an earlier id is not known any more.
func (p *locationStates) forgetGeneration(key types.NamespacedName, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.getOrCreateState(key)
	var rest []string
	for _, one := range at.earlierIDs {
		if one != id {
			rest = append(rest, one)
		}
	}
	at.earlierIDs = rest
}

// pruneLocation drops a location that is gone, when no look of it is known any more.
func (p *locationStates) pruneLocation(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.byKey[key]; at != nil && at.generationID == "" && len(at.earlierIDs) == 0 {
		delete(p.byKey, key)
	}
}

// recordSyncEnd notes that a look ended, or, with the zero time, that the next one is due at once.
func (p *locationStates) recordSyncEnd(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.getOrCreateState(key).lastSyncEnd = now
}

// timeUntilSync returns how long the last look is good: for the interval, or for the pause if
// something happened.
func (p *locationStates) timeUntilSync(key types.NamespacedName, now time.Time, interval, pause time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.getOrCreateState(key)
	switch {
	case at.lastSyncEnd.IsZero():
		return 0
	case at.syncRequested:
		return at.lastSyncEnd.Add(min(pause, interval)).Sub(now)
	}
	return at.lastSyncEnd.Add(interval).Sub(now)
}

// beginSync returns what is remembered for the next look, which sees all that happened.
func (p *locationStates) beginSync(key types.NamespacedName) *Cache {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.getOrCreateState(key)
	at.syncRequested = false
	return at.cache
}
