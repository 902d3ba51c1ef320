// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long a run is let alone after one of its operations changed. Ten thousand of them
// change a hundred times a second, and adding them up takes as long as hundreds of
// questions to plugins.
const (
	pauseAfterProgress = time.Second
	pauseAfterEnd      = 100 * time.Millisecond
	pauseForEach       = 500 * time.Microsecond
)

// pace remembers what operations runs have. It is safe for concurrent use; the zero one is
// ready.
type pace struct {
	mu   sync.Mutex
	runs map[types.UID]paced
}

// paced is what is known of the operations of one run.
type paced struct {
	// size is how many there are.
	size int
	// at is when they were looked at last.
	at time.Time
	// complete says that the cache shows all that were started.
	complete bool
	// failed is when what follows the operations failed for the first time.
	failed time.Time
}

// set takes note of how many operations a run has now.
func (p *pace) set(uid types.UID, size int, now time.Time) {
	p.change(uid, func(known *paced) { known.size, known.at = size, now })
}

// rest returns how long the operations of a run need not be looked at; 0 if they are few.
func (p *pace) rest(uid types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.runs[uid]
	pause := time.Duration(known.size) * pauseForEach
	if pause <= pauseAfterProgress {
		return 0
	}
	return max(0, pause-now.Sub(known.at))
}

// catchUp takes note that the cache shows all operations of a run.
func (p *pace) catchUp(uid types.UID) {
	p.change(uid, func(known *paced) { known.complete = true })
}

// caughtUp says whether it does.
func (p *pace) caughtUp(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].complete
}

// failing returns for how long what follows the operations of a run has failed, which it
// does now.
func (p *pace) failing(uid types.UID, now time.Time) (since time.Duration) {
	p.change(uid, func(known *paced) {
		if known.failed.IsZero() {
			known.failed = now
		}
		since = now.Sub(known.failed)
	})
	return since
}

func (p *pace) change(uid types.UID, change func(*paced)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[types.UID]paced{}
	}
	known := p.runs[uid]
	change(&known)
	p.runs[uid] = known
}

// drop forgets a run.
func (p *pace) drop(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, uid)
}

// pause returns how long a run is let alone after one of its operations has changed, or
// has ended.
func (p *pace) pause(uid types.UID, ended bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := pauseAfterProgress
	if ended {
		least = pauseAfterEnd
	}
	return max(least, time.Duration(p.runs[uid].size)*pauseForEach)
}
