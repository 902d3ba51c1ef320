// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// progressTracker has the progress of the runs of this process. It is safe for concurrent use;
// the zero value is ready to use.
type progressTracker struct{ runs sync.Map }

type itemCounters struct{ total, done atomic.Int64 }

// setProgress records the progress of a run.
func (p *progressTracker) setProgress(uid types.UID, total, done int) {
	v, _ := p.runs.LoadOrStore(uid, &itemCounters{})
	if c, ok := v.(*itemCounters); ok {
		c.total.Store(int64(total))
		c.done.Store(int64(done))
	}
}

// getProgress returns the progress of a run, and whether it is known.
func (p *progressTracker) getProgress(uid types.UID) (total, done int64, known bool) {
	v, _ := p.runs.Load(uid)
	c, known := v.(*itemCounters)
	if !known {
		return 0, 0, false
	}
	return c.total.Load(), c.done.Load(), true
}

func (p *progressTracker) forgetRun(uid types.UID) { p.runs.Delete(uid) }

// Progress returns the progress of a run, and whether it is known.
func (d *Driver[T]) Progress(object T) (total, done int64, known bool) {
	return d.progress.getProgress(object.GetUID())
}

// NewProgressReporter returns a function that records the progress of a run and enqueues the
// run, at most once a second. Progress does not return the values in between. Each write of the
// status reconciles the object as well, so newer values would cause one write after the other.
func (d *Driver[T]) NewProgressReporter(object T) func(total, done int) {
	owner, uid, last := namespacedNameOf(object), object.GetUID(), d.Now()
	return func(total, done int) {
		if now := d.Now(); now.Sub(last) >= time.Second {
			last = now
			d.progress.setProgress(uid, total, done)
			d.Enqueue(owner)
		}
	}
}
