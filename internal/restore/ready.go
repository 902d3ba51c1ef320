// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
)

const (
	// waitingPerWorker is how many objects may wait for others without holding up
	// anybody, for each worker. They are in memory meanwhile.
	waitingPerWorker = 4
	firstReadyDelay  = time.Second
	lastReadyDelay   = 10 * time.Second
	// maxReadyTimeout is the longest time that an action may ask for.
	maxReadyTimeout = 24 * time.Hour
)

// place is that of a worker, who gives it away when the object has to wait. The
// worker goes on without one then: to wait for another place could be to wait for
// somebody who waits for this object.
type place struct {
	run *run
	// given says that others have it.
	given bool
	// stead, if set, makes another worker take the place.
	stead func()
}

// give lets others have the place, unless too many wait already.
func (p *place) give() {
	if p == nil || p.given {
		return
	}
	select {
	case p.run.waiting <- struct{}{}:
	default:
		return
	}
	p.given = true
	p.run.leave()
	if p.stead != nil {
		p.stead()
	}
}

// leave is called when the worker is done.
func (p *place) leave() {
	if p.given {
		<-p.run.waiting
		return
	}
	p.run.leave()
}

// awaitReady waits until an action says that what an object needs is ready for it.
// An error says why it was not waited for any longer. The object is restored then all
// the same: it may still become what it should be, and would be missed for certain.
func (r *run) awaitReady(
	ctx context.Context, it *item, action *outside, result restoreaction.Result, there []restoreaction.Ref,
) error {
	if result.Ready == nil {
		return nil
	}
	timeout := r.engine.opts.ReadyTimeout
	if result.ReadyTimeout > 0 {
		timeout = min(result.ReadyTimeout, maxReadyTimeout)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	delay := firstReadyDelay
	for {
		var ready bool
		err := action.call(waiting, func() (err error) {
			ready, err = result.Ready(waiting, there)
			return err
		})
		switch {
		case err == nil && ready:
			return nil
		case err != nil && waiting.Err() == nil:
			return fmt.Errorf("it could not be found out whether the objects that it needs are ready, and they were not waited for: %w", err)
		}
		r.related.stall(it.entry.mark)
		it.place.give()
		if r.engine.opts.Sleep(waiting, delay) != nil {
			break
		}
		delay = min(2*delay, lastReadyDelay)
	}
	return fmt.Errorf("the objects that it needs were not ready after %s and are not waited for any longer: check them, and this one", timeout)
}
