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
	// waitersPerWorker is how many objects may wait for others without holding up
	// anybody, for each worker. They are in memory meanwhile.
	waitersPerWorker    = 4
	initialReadyBackoff = time.Second
	maxReadyBackoff     = 10 * time.Second
	// maxReadyTimeout is the longest time that an action may ask for.
	maxReadyTimeout = 24 * time.Hour
)

// workerSlot is that of a worker, who gives it away when the object has to wait. The
// worker goes on without one then: to wait for another place could be to wait for
// somebody who waits for this object.
type workerSlot struct {
	pass *enginePass
	// yielded says that others have it.
	yielded bool
	// substitute, if set, makes another worker take the place.
	substitute func()
}

// yieldSlot lets others have the place, unless too many wait already.
func (p *workerSlot) yieldSlot() {
	if p == nil || p.yielded {
		return
	}
	select {
	case p.pass.waitingSlots <- struct{}{}:
	default:
		return
	}
	p.yielded = true
	p.pass.releaseWorkerSlot()
	if p.substitute != nil {
		p.substitute()
	}
}

// releaseSlot is called when the worker is done.
func (p *workerSlot) releaseSlot() {
	if p.yielded {
		<-p.pass.waitingSlots
		return
	}
	p.pass.releaseWorkerSlot()
}

// waitUntilReady waits until an action says that what an object needs is ready for it.
// An error says why it was not waited for any longer. The object is restored then all
// the same: it may still become what it should be, and would be missed for certain.
func (r *enginePass) waitUntilReady(
	ctx context.Context, it *item, action *pluginAction, result restoreaction.Result, there []restoreaction.ItemRef,
) error {
	if result.AreRelatedItemsReady == nil {
		return nil
	}
	timeout := r.engine.opts.ReadyTimeout
	if result.ReadyTimeout > 0 {
		timeout = min(result.ReadyTimeout, maxReadyTimeout)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	delay := initialReadyBackoff
	for {
		var ready bool
		err := action.callWithSlot(waiting, func() (err error) {
			ready, err = result.AreRelatedItemsReady(waiting, there)
			return err
		})
		switch {
		case err == nil && ready:
			return nil
		case err != nil && waiting.Err() == nil:
			return fmt.Errorf("checking whether its related items are ready failed, so the restore did not wait for them: %w", err)
		}
		r.dependencies.markStalled(it.entry.itemStatus)
		it.slot.yieldSlot()
		if r.engine.opts.Sleep(waiting, delay) != nil {
			break
		}
		delay = min(2*delay, maxReadyBackoff)
	}
	return fmt.Errorf("its related items were not ready after %s, and the restore no longer waits for them: check them and this object", timeout)
}
