// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// queue hands out the slots in which Backups may run. First come, first served,
// by creation time; a Backup that was running before the operator restarted
// always gets its slot back. Whoever gives a slot back wakes the next one: no
// timer decides when a waiting Backup starts.
type queue struct {
	wake func(types.NamespacedName)

	mu      sync.Mutex
	limit   int
	running map[types.UID]types.NamespacedName
	waiting []ticket
}

type ticket struct {
	uid     types.UID
	created int64
	owner   types.NamespacedName
}

func newQueue(limit int, wake func(types.NamespacedName)) *queue {
	return &queue{limit: limit, wake: wake, running: map[types.UID]types.NamespacedName{}}
}

// acquire takes a slot, or a place in the queue. A resumed Backup does not wait.
func (q *queue) acquire(b *v1alpha1.Backup, resumed bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, has := q.running[b.UID]; has {
		return true
	}
	i := slices.IndexFunc(q.waiting, func(w ticket) bool { return w.uid == b.UID })
	if i < 0 {
		t := ticket{uid: b.UID, created: b.CreationTimestamp.UnixNano(), owner: ownerOf(b)}
		i, _ = slices.BinarySearchFunc(q.waiting, t, func(a, b ticket) int {
			return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.owner.String(), b.owner.String()))
		})
		q.waiting = slices.Insert(q.waiting, i, t)
	}
	if !resumed && i >= q.limit-len(q.running) {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.running[b.UID] = ownerOf(b)
	return true
}

// release gives a slot or a place in the queue back, and wakes who is next.
func (q *queue) release(uid types.UID) {
	q.mu.Lock()
	delete(q.running, uid)
	q.waiting = slices.DeleteFunc(q.waiting, func(w ticket) bool { return w.uid == uid })
	free := min(max(q.limit-len(q.running), 0), len(q.waiting))
	next := slices.Clone(q.waiting[:free])
	q.mu.Unlock()
	for _, t := range next {
		q.wake(t.owner)
	}
}

// of returns the Backups of that name that have a slot or a place in the queue;
// after one was replaced there may be two.
func (q *queue) of(owner types.NamespacedName) []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	var uids []types.UID
	for uid, o := range q.running {
		if o == owner {
			uids = append(uids, uid)
		}
	}
	for _, t := range q.waiting {
		if t.owner == owner {
			uids = append(uids, t.uid)
		}
	}
	return uids
}
