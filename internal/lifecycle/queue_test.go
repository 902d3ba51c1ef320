// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
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

// queued returns a Backup that was created at the given second.
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
		if got := q.acquireSlot(b, false); got != want {
			t.Errorf("acquire(%s) = %v, want %v", b.Name, got, want)
		}
	}
	wake := func(want ...string) {
		t.Helper()
		if !slices.Equal(woken, want) {
			t.Errorf("enqueued: %q, want %q", woken, want)
		}
		woken = nil
	}
	a, b, c, d, e := queued("a", 1), queued("b", 2), queued("c", 4), queued("d", 3), queued("e", 4)
	acquire(a, true)
	acquire(b, true)
	acquire(c, false)
	acquire(d, false)
	acquire(e, false)
	acquire(a, true) // it has a slot already
	wake()

	q.removeRun(a.UID)
	wake("d") // the oldest waiting run, regardless of the order of requests
	acquire(c, false)
	acquire(d, true)

	if !q.acquireSlot(queued("resumed", 9), true) {
		t.Error("a Backup that was active before a restart has to wait")
	}
	q.removeRun(d.UID)
	wake() // the resumed one takes its place
	q.removeRun("uid-resumed")
	wake("c")
	q.removeRun(c.UID) // it was canceled meanwhile
	wake("e")
	acquire(e, true)
	q.removeRun(b.UID)
	q.removeRun(e.UID)
	wake()
	if uids := q.uidsForName(types.NamespacedName{Namespace: "ns", Name: "e"}); len(uids) > 0 {
		t.Errorf("removed runs are still known: %v", uids)
	}
}

// TestQueue_ReleaseSlot has one slot, and a run that does not need it
// anymore but must still be known.
func TestQueue_ReleaseSlot(t *testing.T) {
	t.Parallel()
	var woken []types.NamespacedName
	q := newQueue(1, func(owner types.NamespacedName) { woken = append(woken, owner) })
	run := func(name string) *v1alpha1.Backup {
		return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	first, second := run("a"), run("b")
	if !q.acquireSlot(first, false) || q.acquireSlot(second, false) {
		t.Fatal("there is not exactly one slot")
	}
	q.releaseSlot(first)
	q.releaseSlot(first)
	if len(woken) != 1 || woken[0].Name != "b" || !q.acquireSlot(second, false) {
		t.Errorf("enqueued: %v", woken)
	}
	if uids := q.uidsForName(namespacedNameOf(first)); len(uids) != 1 || uids[0] != "a" {
		t.Errorf("the waiting run is known as %v", uids)
	}
	q.removeRun("a")
	if uids := q.uidsForName(namespacedNameOf(first)); len(uids) != 0 {
		t.Errorf("the removed run is known as %v", uids)
	}
	if q.acquireSlot(run("c"), false) {
		t.Error("the end of a run without a slot freed one")
	}
}

// TestQueue_NoStarvation has many competing Backups. Each one gets a slot, there are never more
// than the limit at a time, and a release always enqueues a waiting Backup. As in an operator, a
// work queue ensures that no Backup is reconciled concurrently.
func TestQueue_NoStarvation(t *testing.T) {
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
		if _, again := served.Load(name); again || !q.acquireSlot(backups[name], false) {
			return
		}
		if now := running.Add(1); now > limit {
			t.Errorf("%d are active at a time", now)
		}
		served.Store(name, true)
		running.Add(-1)
		q.removeRun(backups[name].UID)
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

// TestReconcileUntilWaiting_YieldSlot has one slot, and a run that waits for something else when it is its
// turn: the next run must not wait for that, too.
func TestReconcileUntilWaiting_YieldSlot(t *testing.T) {
	held := func(name string, second int64) *v1alpha1.Backup {
		b := queued(name, second)
		b.Finalizers = []string{v1alpha1.FinalizerRun}
		return b
	}
	for name, tc := range map[string]struct {
		// has means that the run had the slot when it started to wait.
		has bool
	}{
		"it waited for its turn": {},
		"it had the slot":        {has: true},
	} {
		t.Run(name, func(t *testing.T) {
			older, newer := held("older", 1), held("newer", 2)
			d := driverWith(t, nil, older, newer)
			var woken []string
			d.queue = newQueue(1, func(owner types.NamespacedName) { woken = append(woken, owner.Name) })
			blocked, got := map[string]bool{}, map[string]bool{}
			look := func(b *v1alpha1.Backup) {
				t.Helper()
				reconcileOnce(t, d, b, func(_ context.Context, s *Scope[*v1alpha1.Backup]) (bool, error) {
					got[s.Object.Name] = !blocked[s.Object.Name] && d.AcquireSlot(s)
					return false, nil
				})
			}
			if !tc.has {
				d.queue.acquireSlot(queued("running", 0), false)
			}
			look(older)
			look(newer)
			blocked["older"] = true // its location is being checked again
			if !tc.has {
				d.queue.removeRun("uid-running")
			}
			look(older)
			if len(woken) == 0 || woken[len(woken)-1] != "newer" {
				t.Errorf("enqueued: %q, want the newer run last", woken)
			}
			if look(newer); !got["newer"] {
				t.Error("the newer run waits for the slot that the older run cannot use")
			}
			blocked["older"] = false
			if look(older); got["older"] {
				t.Error("there are two slots")
			}
			d.queue.removeRun(newer.UID)
			if look(older); !got["older"] {
				t.Error("the older run has lost its turn")
			}
		})
	}
}

// TestReconcileUntilWaiting_QueueOrder has one slot, and a Plugin that is still starting when the slot
// becomes free. All runs wait for the Plugin, so the oldest run continues first.
func TestReconcileUntilWaiting_QueueOrder(t *testing.T) {
	older, newer := queued("older", 1), queued("newer", 2)
	older.Finalizers, newer.Finalizers = []string{v1alpha1.FinalizerRun}, []string{v1alpha1.FinalizerRun}
	d := driverWith(t, nil, older, newer)
	d.queue = newQueue(1, func(types.NamespacedName) {})
	loading, got := true, map[string]bool{}
	reconcile := func(backups ...*v1alpha1.Backup) {
		t.Helper()
		for _, b := range backups {
			reconcileOnce(t, d, b, func(_ context.Context, s *Scope[*v1alpha1.Backup]) (bool, error) {
				if loading {
					s.MarkWaitingForPlugin("freeze")
					return false, nil
				}
				got[s.Object.Name] = d.AcquireSlot(s)
				return false, nil
			})
		}
	}
	d.queue.acquireSlot(queued("running", 0), false)
	loading = false
	reconcile(older, newer)
	loading = true
	reconcile(older, newer)
	d.queue.removeRun("uid-running")
	loading = false
	if reconcile(newer); got["newer"] {
		t.Error("the newer run has overtaken the older run")
	}
	if reconcile(older); !got["older"] {
		t.Error("the older run does not continue")
	}
}

// reconcileOnce reconciles a Backup as its controller does.
func reconcileOnce(t *testing.T, d *Driver[*v1alpha1.Backup], b *v1alpha1.Backup, parts ...ReconcileFunc[*v1alpha1.Backup]) {
	t.Helper()
	current, err := d.GetRun(t.Context(), namespacedNameOf(b))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Begin(t.Context(), current)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteStatus(t.Context(), s, s.ReconcileUntilWaiting(t.Context(), parts...)); err != nil {
		t.Fatal(err)
	}
}
