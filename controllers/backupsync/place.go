// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// place is what is remembered of one location between passes.
type place struct {
	// id is the UID and generation that it was seen with, "" if it is gone.
	id string
	// earlier are the ids whose looks may still be known.
	earlier []string
	// ended is when the last look of this id ended; zero if there was none since the
	// location became available.
	ended time.Time
	// wanted is set when something happened that a look should see.
	wanted bool
	memory *Memory
}

// places are all locations. They are safe for concurrent use; what Memory holds belongs to
// the look that runs.
type places struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*place
}

func (p *places) of(key types.NamespacedName) *place {
	if p.all == nil {
		p.all = map[types.NamespacedName]*place{}
	}
	if p.all[key] == nil {
		p.all[key] = &place{memory: &Memory{}}
	}
	return p.all[key]
}

// want has a location looked at soon.
func (p *places) want(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(key).wanted = true
}

// enter notes the id of a location, and returns those that it had earlier.
func (p *places) enter(key types.NamespacedName, id string) (earlier []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(key)
	if at.id == id {
		return at.earlier
	}
	if at.id != "" {
		at.earlier = append(at.earlier, at.id)
	}
	// A look of the earlier id may still use its memory.
	at.id, at.ended, at.memory = id, time.Time{}, &Memory{}
	return at.earlier
}

// left notes that a look of an earlier id is not known any more.
func (p *places) left(key types.NamespacedName, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(key)
	var rest []string
	for _, one := range at.earlier {
		if one != id {
			rest = append(rest, one)
		}
	}
	at.earlier = rest
}

// tidy drops a location that is gone, when no look of it is known any more.
func (p *places) tidy(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.all[key]; at != nil && at.id == "" && len(at.earlier) == 0 {
		delete(p.all, key)
	}
}

// end notes that a look ended, or, with the zero time, that the next one is due at once.
func (p *places) end(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(key).ended = now
}

// wait returns how long the last look is good: for the interval, or for the pause if
// something happened.
func (p *places) wait(key types.NamespacedName, now time.Time, interval, pause time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(key)
	switch {
	case at.ended.IsZero():
		return 0
	case at.wanted:
		return at.ended.Add(min(pause, interval)).Sub(now)
	}
	return at.ended.Add(interval).Sub(now)
}

// begin returns what is remembered for the next look, which sees all that happened.
func (p *places) begin(key types.NamespacedName) *Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of(key)
	at.wanted = false
	return at.memory
}
