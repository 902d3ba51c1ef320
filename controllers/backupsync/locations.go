// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// locationState is the state of one location that is kept between reconciles.
type locationState struct {
	// generationID is the last observed UID and generation; "" if the location was deleted.
	generationID string
	// earlierIDs are the earlier ids whose syncs may still exist.
	earlierIDs []string
	// lastSyncEnd is when the last sync of this id ended; zero if there was none since the
	// location became available.
	lastSyncEnd time.Time
	// syncRequested is set when something changed that a sync should observe.
	syncRequested bool
	cache         *Cache
}

// locationStates holds the states of all locations. It is safe for concurrent use, except for the
// caches, each of which belongs to the running sync.
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

// requestSync requests a sync of a location soon.
func (p *locationStates) requestSync(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.getOrCreateState(key).syncRequested = true
}

// trackGeneration records the id of a location, and returns its earlier ids.
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
	// A sync of the earlier id may still use its cache.
	at.generationID, at.lastSyncEnd, at.cache = id, time.Time{}, &Cache{}
	return at.earlierIDs
}

// forgetGeneration records that the sync of an earlier id no longer exists.
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

// pruneLocation drops a deleted location once none of its syncs exists.
func (p *locationStates) pruneLocation(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.byKey[key]; at != nil && at.generationID == "" && len(at.earlierIDs) == 0 {
		delete(p.byKey, key)
	}
}

// recordSyncEnd records the end of a sync. The zero time makes the next one due immediately.
func (p *locationStates) recordSyncEnd(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.getOrCreateState(key).lastSyncEnd = now
}

// timeUntilSync returns the time until the next sync: after the interval, or after the pause if
// a sync was requested.
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

// beginSync returns the cache for the next sync, and clears the request.
func (p *locationStates) beginSync(key types.NamespacedName) *Cache {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.getOrCreateState(key)
	at.syncRequested = false
	return at.cache
}
