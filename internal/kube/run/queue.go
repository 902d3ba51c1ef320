// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// queue hands out the slots in which runs may run. First come, first served,
// by creation time; a run that was running before the operator restarted
// always gets its slot back. Whoever gives a slot back wakes the next one: no
// timer decides when a waiting run starts.
type queue struct {
	wake func(types.NamespacedName)

	mu      sync.Mutex
	limit   int
	running map[types.UID]types.NamespacedName
	waiting []ticket
	// parked are those that need no slot any more, and are not over.
	parked map[types.UID]types.NamespacedName
}

type ticket struct {
	uid     types.UID
	created int64
	owner   types.NamespacedName
}

func newQueue(limit int, wake func(types.NamespacedName)) *queue {
	return &queue{limit: limit, wake: wake, running: map[types.UID]types.NamespacedName{}, parked: map[types.UID]types.NamespacedName{}}
}

// acquire takes a slot, or a place in the queue. A resumed run does not wait.
func (q *queue) acquire(o metav1.Object, resumed bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, has := q.running[o.GetUID()]; has {
		return true
	}
	i := slices.IndexFunc(q.waiting, func(w ticket) bool { return w.uid == o.GetUID() })
	if i < 0 {
		created := o.GetCreationTimestamp()
		t := ticket{uid: o.GetUID(), created: created.UnixNano(), owner: nameOf(o)}
		i, _ = slices.BinarySearchFunc(q.waiting, t, func(a, b ticket) int {
			return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.owner.String(), b.owner.String()))
		})
		q.waiting = slices.Insert(q.waiting, i, t)
	}
	if !resumed && i >= q.limit-len(q.running) {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.running[o.GetUID()] = nameOf(o)
	return true
}

// park gives the slot of a run back that only waits for operations, which may take hours.
func (q *queue) park(o metav1.Object) {
	q.mu.Lock()
	_, parked := q.parked[o.GetUID()]
	q.parked[o.GetUID()] = nameOf(o)
	q.mu.Unlock()
	if !parked {
		q.leave(o.GetUID())
	}
}

// release gives a slot or a place in the queue back, and wakes who is next.
func (q *queue) release(uid types.UID) {
	q.mu.Lock()
	delete(q.parked, uid)
	q.mu.Unlock()
	q.leave(uid)
}

func (q *queue) leave(uid types.UID) {
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

// of returns the runs of that name that are not over; after one was replaced there may be
// two.
func (q *queue) of(owner types.NamespacedName) []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	var uids []types.UID
	for _, some := range []map[types.UID]types.NamespacedName{q.running, q.parked} {
		for uid, o := range some {
			if o == owner {
				uids = append(uids, uid)
			}
		}
	}
	for _, t := range q.waiting {
		if t.owner == owner {
			uids = append(uids, t.uid)
		}
	}
	return uids
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
