// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// progressTracker knows how far the runs of this process are. It is safe for concurrent
// use; the zero progress is ready.
type progressTracker struct{ runs sync.Map }

type itemCounters struct{ total, done atomic.Int64 }

// setProgress says how far a run is.
func (p *progressTracker) setProgress(uid types.UID, total, done int) {
	v, _ := p.runs.LoadOrStore(uid, &itemCounters{})
	if c, ok := v.(*itemCounters); ok {
		c.total.Store(int64(total))
		c.done.Store(int64(done))
	}
}

// getProgress returns how far a run is, and whether that is known.
func (p *progressTracker) getProgress(uid types.UID) (total, done int64, known bool) {
	v, _ := p.runs.Load(uid)
	c, known := v.(*itemCounters)
	if !known {
		return 0, 0, false
	}
	return c.total.Load(), c.done.Load(), true
}

// forgetRun forgets a run.
func (p *progressTracker) forgetRun(uid types.UID) { p.runs.Delete(uid) }

// Progress returns how far the run of an object is, and whether that is known.
func (d *Driver[T]) Progress(object T) (total, done int64, known bool) {
	return d.progress.getProgress(object.GetUID())
}

// NewProgressReporter returns what takes note of how far the run of an object is, at most once
// a second, and has the object looked at again then. What comes in between is not
// seen by Progress either: an object is looked at after each write of its status
// too, and would be written over and over.
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
