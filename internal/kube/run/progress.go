// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Progress knows how far the runs of this process are. It is safe for concurrent
// use; the zero Progress is ready.
type Progress struct{ runs sync.Map }

type counters struct{ total, done atomic.Int64 }

// set says how far a run is.
func (p *Progress) set(uid types.UID, total, done int) {
	v, _ := p.runs.LoadOrStore(uid, &counters{})
	if c, ok := v.(*counters); ok {
		c.total.Store(int64(total))
		c.done.Store(int64(done))
	}
}

// Get returns how far a run is, and whether that is known.
func (p *Progress) Get(uid types.UID) (total, done int64, known bool) {
	v, _ := p.runs.Load(uid)
	c, known := v.(*counters)
	if !known {
		return 0, 0, false
	}
	return c.total.Load(), c.done.Load(), true
}

// Drop forgets a run.
func (p *Progress) Drop(uid types.UID) { p.runs.Delete(uid) }

// Reporter returns what takes note of how far the run of an object is, at most once
// a second, and has the object looked at again then. What comes in between is not
// seen by p either: an object is looked at after each write of its status too, and
// would be written over and over.
func (d *Driver[T]) Reporter(p *Progress, object T) func(total, done int) {
	owner, uid, last := nameOf(object), object.GetUID(), d.Now()
	return func(total, done int) {
		if now := d.Now(); now.Sub(last) >= time.Second {
			last = now
			p.set(uid, total, done)
			d.Wake(owner)
		}
	}
}
