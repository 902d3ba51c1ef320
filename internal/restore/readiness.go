// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	// waitersPerWorker is how many objects may wait for others without blocking a worker,
	// for each worker. They are in memory meanwhile.
	waitersPerWorker    = 4
	initialReadyBackoff = time.Second
	maxReadyBackoff     = 10 * time.Second
	// maxReadyTimeout is the maximum timeout that an action may set.
	maxReadyTimeout = 24 * time.Hour
)

// workerSlot is the slot of a worker, who yields it when the object has to wait. The worker
// then continues without a slot: waiting for another one could deadlock with a worker that
// waits for this object.
type workerSlot struct {
	pass *enginePass
	// yielded reports that the slot was released to others.
	yielded bool
	// substitute, if set, starts another worker for the slot.
	substitute func()
}

// yieldSlot releases the slot to others, unless too many objects already wait.
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

// releaseSlot must be called when the worker is done.
func (p *workerSlot) releaseSlot() {
	if p.yielded {
		<-p.pass.waitingSlots
		return
	}
	p.pass.releaseWorkerSlot()
}

// waitUntilReady waits until an action reports that the related items of an object are
// ready. An error explains why it stopped waiting. The object is restored in any case: it
// may still become ready, and otherwise would certainly be missing.
func (r *enginePass) waitUntilReady(
	ctx context.Context, it *item, action *pluginAction, result itemaction.Result, there []itemaction.RelatedItem,
) error {
	waiter, ok := action.RestorePluginAction.(itemaction.Waiter[*itemaction.RestoreItem])
	if !ok || !result.WaitForRelatedItems {
		return nil
	}
	shown := r.newActionItem(it)
	timeout := r.engine.opts.ReadyTimeout
	if result.ReadyTimeout > 0 {
		timeout = min(result.ReadyTimeout, maxReadyTimeout)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	delays := wait.Backoff{Duration: initialReadyBackoff, Factor: 2, Cap: maxReadyBackoff, Steps: math.MaxInt}
	for {
		var ready bool
		err := action.callWithSlot(waiting, func() (err error) {
			ready, err = waiter.AreRelatedItemsReady(waiting, shown, there)
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
		if r.engine.opts.Sleep(waiting, delays.Step()) != nil {
			break
		}
	}
	return fmt.Errorf("its related items were not ready after %s, and the restore no longer waits for them: check them and this object", timeout)
}
