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

// pace remembers how many operations runs have. It is safe for concurrent use; the zero
// one is ready.
type pace struct {
	mu    sync.Mutex
	sizes map[types.UID]int
}

// set takes note of the operations of a run.
func (p *pace) set(uid types.UID, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sizes == nil {
		p.sizes = map[types.UID]int{}
	}
	p.sizes[uid] = size
}

// drop forgets a run.
func (p *pace) drop(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sizes, uid)
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
	return max(least, time.Duration(p.sizes[uid])*pauseForEach)
}
