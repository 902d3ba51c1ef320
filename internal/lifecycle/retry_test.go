// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestRetryForever_HungStore checks that a step that hangs in a store is canceled after its
// timeout, so that its run does not keep a slot from others, and is retried when the store is
// back.
func TestRetryForever_HungStore(t *testing.T) {
	const outage = 20 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		d, hung, other := stepping(t), begun(0), queued("other", 1)
		d.StepTimeouts = ShortStepTimeouts("remove")
		d.queue = newQueue(1, func(types.NamespacedName) {})
		start, otherAt, done := time.Now(), time.Duration(0), false
		remove := func(context.Context) (string, error) { time.Sleep(outage - time.Since(start)); return "removed", nil }
		for !done && time.Since(start) < 2*outage {
			s := newScope(BackupKind, hung)
			if d.AcquireSlot(s) {
				ended := stepOf(d, s, "remove", remove)
				switch {
				case ended == nil:
				case ended.Err != nil:
					d.RetryForever(s, "remove")
					d.ReleaseSlot(s)
				default:
					done = ended.Value == "removed"
				}
			}
			for _, f := range s.afterUpdate {
				if err := f(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if otherAt == 0 && d.queue.acquireSlot(other, false) {
				otherAt = time.Since(start)
				d.queue.removeRun(other.UID)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if otherAt == 0 || otherAt > shortStepTimeout+d.Limits.StuckStepTimeout+5*time.Second {
			t.Errorf("the other run had a slot after %s (0s: never), want after %s", otherAt, shortStepTimeout+d.Limits.StuckStepTimeout)
		}
		if took := time.Since(start); !done || took > outage+15*time.Second {
			t.Errorf("the step was done: %v, after %s; want soon after %s", done, took, outage)
		}
	})
}
