// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// queue hands out the slots for runs, ordered by creation time. A run that was active before the
// operator restarted always gets its slot back. Releasing a slot enqueues the next run, so no
// timer decides when a waiting run starts.
type queue struct {
	enqueue func(types.NamespacedName)

	mu      sync.Mutex
	limit   int
	running map[types.UID]types.NamespacedName
	waiting []waiter
	// slotReleased has the runs that need no slot anymore but are not finished.
	slotReleased map[types.UID]types.NamespacedName
}

type waiter struct {
	uid     types.UID
	created int64
	owner   types.NamespacedName
}

func newQueue(limit int, wake func(types.NamespacedName)) *queue {
	return &queue{limit: limit, enqueue: wake, running: map[types.UID]types.NamespacedName{}, slotReleased: map[types.UID]types.NamespacedName{}}
}

// acquireSlot acquires a slot, or adds the run to the queue. A resumed run does not wait.
func (q *queue) acquireSlot(o metav1.Object, resumed bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, has := q.running[o.GetUID()]; has {
		return true
	}
	i := slices.IndexFunc(q.waiting, func(w waiter) bool { return w.uid == o.GetUID() })
	if i < 0 {
		created := o.GetCreationTimestamp()
		t := waiter{uid: o.GetUID(), created: created.UnixNano(), owner: namespacedNameOf(o)}
		i, _ = slices.BinarySearchFunc(q.waiting, t, func(a, b waiter) int {
			return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.owner.String(), b.owner.String()))
		})
		q.waiting = slices.Insert(q.waiting, i, t)
	}
	if !resumed && i >= q.limit-len(q.running) {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.running[o.GetUID()] = namespacedNameOf(o)
	return true
}

// releaseSlot releases the slot of a run that only waits for operations, which may take hours.
func (q *queue) releaseSlot(o metav1.Object) {
	q.mu.Lock()
	_, parked := q.slotReleased[o.GetUID()]
	q.slotReleased[o.GetUID()] = namespacedNameOf(o)
	q.mu.Unlock()
	if !parked {
		q.dequeue(o.GetUID())
	}
}

// removeRun releases the slot or queue position of a run, and enqueues the next runs.
func (q *queue) removeRun(uid types.UID) {
	q.mu.Lock()
	delete(q.slotReleased, uid)
	q.mu.Unlock()
	q.dequeue(uid)
}

// yieldSlot releases the queue position of a run that now waits for something else, and its slot
// unless keepSlot is set: the run must not hold up those behind it. Because of its creation
// time, the run gets the same position again later.
func (q *queue) yieldSlot(uid types.UID, keepSlot bool) {
	q.mu.Lock()
	_, runs := q.running[uid]
	waits := slices.ContainsFunc(q.waiting, func(w waiter) bool { return w.uid == uid })
	q.mu.Unlock()
	if waits || runs && !keepSlot {
		q.dequeue(uid)
	}
}

func (q *queue) dequeue(uid types.UID) {
	q.mu.Lock()
	delete(q.running, uid)
	q.waiting = slices.DeleteFunc(q.waiting, func(w waiter) bool { return w.uid == uid })
	free := min(max(q.limit-len(q.running), 0), len(q.waiting))
	next := slices.Clone(q.waiting[:free])
	q.mu.Unlock()
	for _, t := range next {
		q.enqueue(t.owner)
	}
}

// uidsForName returns the UIDs of the unfinished runs with a name. After one of them was
// replaced, there may be two.
func (q *queue) uidsForName(owner types.NamespacedName) []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	var uids []types.UID
	for _, some := range []map[types.UID]types.NamespacedName{q.running, q.slotReleased} {
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

func namespacedNameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
