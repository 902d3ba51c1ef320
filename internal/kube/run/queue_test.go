// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// queued returns a Backup that was created at a second.
func queued(name string, second int64) *v1alpha1.Backup {
	b := &v1alpha1.Backup{}
	b.Namespace, b.Name, b.UID = "ns", name, types.UID("uid-"+name)
	b.CreationTimestamp = metav1.NewTime(time.Unix(second, 0))
	return b
}

func TestQueue(t *testing.T) {
	var woken []string
	q := newQueue(2, func(owner types.NamespacedName) { woken = append(woken, owner.Name) })
	acquire := func(b *v1alpha1.Backup, want bool) {
		t.Helper()
		if got := q.acquire(b, false); got != want {
			t.Errorf("acquire(%s) = %v, want %v", b.Name, got, want)
		}
	}
	wake := func(want ...string) {
		t.Helper()
		if !slices.Equal(woken, want) {
			t.Errorf("woken: %q, want %q", woken, want)
		}
		woken = nil
	}
	a, b, c, d, e := queued("a", 1), queued("b", 2), queued("c", 4), queued("d", 3), queued("e", 4)
	acquire(a, true)
	acquire(b, true)
	acquire(c, false)
	acquire(d, false)
	acquire(e, false)
	acquire(a, true) // it has its slot
	wake()

	q.release(a.UID)
	wake("d") // the oldest that waits, whoever asked first
	acquire(c, false)
	acquire(d, true)

	if !q.acquire(queued("resumed", 9), true) {
		t.Error("a Backup that ran before a restart has to wait")
	}
	q.release(d.UID)
	wake() // the resumed one takes its place
	q.release("uid-resumed")
	wake("c")
	q.release(c.UID) // it was cancelled meanwhile
	wake("e")
	acquire(e, true)
	q.release(b.UID)
	q.release(e.UID)
	wake()
	if uids := q.of(types.NamespacedName{Namespace: "ns", Name: "e"}); len(uids) > 0 {
		t.Errorf("what was released is still known: %v", uids)
	}
}

// TestQueueLetsThroughWhoeverWaitsForOperations has one slot, and a run that needs none any
// more; it is known all the same.
func TestQueueLetsThroughWhoeverWaitsForOperations(t *testing.T) {
	t.Parallel()
	var woken []types.NamespacedName
	q := newQueue(1, func(owner types.NamespacedName) { woken = append(woken, owner) })
	run := func(name string) *v1alpha1.Backup {
		return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	first, second := run("a"), run("b")
	if !q.acquire(first, false) || q.acquire(second, false) {
		t.Fatal("there is more or less than one slot")
	}
	q.park(first)
	q.park(first)
	if len(woken) != 1 || woken[0].Name != "b" || !q.acquire(second, false) {
		t.Errorf("woken were %v", woken)
	}
	if uids := q.of(nameOf(first)); len(uids) != 1 || uids[0] != "a" {
		t.Errorf("the run that waits is known as %v", uids)
	}
	q.release("a")
	if uids := q.of(nameOf(first)); len(uids) != 0 {
		t.Errorf("the run that is over is known as %v", uids)
	}
	if q.acquire(run("c"), false) {
		t.Error("the end of a run without a slot freed one")
	}
}

// TestQueueNeverStarves lets many Backups compete: every one gets a slot, never
// more than the limit at a time, and a release always wakes somebody who waits.
// As in an operator, a work queue sees to it that nobody is looked at twice at once.
func TestQueueNeverStarves(t *testing.T) {
	const n, limit = 50, 3
	wakeUps := workqueue.NewTyped[string]()
	q := newQueue(limit, func(owner types.NamespacedName) { wakeUps.Add(owner.Name) })
	backups := map[string]*v1alpha1.Backup{}
	for i := range n {
		b := queued(fmt.Sprintf("b%02d", i), int64(i%7))
		backups[b.Name] = b
		wakeUps.Add(b.Name)
	}
	var served sync.Map
	var running, count atomic.Int32
	run := func(name string) {
		if _, again := served.Load(name); again || !q.acquire(backups[name], false) {
			return
		}
		if now := running.Add(1); now > limit {
			t.Errorf("%d run at a time", now)
		}
		served.Store(name, true)
		running.Add(-1)
		q.release(backups[name].UID)
		if count.Add(1) == n {
			wakeUps.ShutDown()
		}
	}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for name, end := wakeUps.Get(); !end; name, end = wakeUps.Get() {
				run(name)
				wakeUps.Done(name)
			}
		})
	}
	workers.Wait()
	if count.Load() != n {
		t.Errorf("%d of %d had a slot", count.Load(), n)
	}
}
