// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	const name, id = "example", "u/1"
	failed := func(b *loadBackoff) { b.recordFailure(name, id) }
	succeeded := func(b *loadBackoff) { b.recordSuccess(name, id, b.now()) }
	ended := func(b *loadBackoff) { b.recordExit(name, id) }
	type event func(*loadBackoff)
	for what, tc := range map[string]struct {
		events []event
		// gap is the time between the end of a back-off and the next event.
		gap  time.Duration
		want []time.Duration // in seconds, after each event
	}{
		"loads fail":                                   {events: []event{failed, failed, failed, failed, failed, failed}, want: []time.Duration{2, 4, 8, 16, 30, 30}},
		"it ends once":                                 {events: []event{succeeded, ended, succeeded}, want: []time.Duration{0, 0, 0}},
		"it ends repeatedly":                           {events: []event{succeeded, ended, succeeded, ended, succeeded, ended, succeeded, ended}, want: []time.Duration{0, 0, 0, 2, 0, 4, 0, 8}},
		"it ends before its load is recorded":          {events: []event{ended, ended, ended, ended}, want: []time.Duration{0, 2, 4, 8}},
		"it ends occasionally":                         {events: []event{succeeded, ended, succeeded, ended, succeeded, ended}, gap: time.Minute, want: []time.Duration{0, 0, 0, 0, 0, 0}},
		"it ends after a failed and a successful load": {events: []event{failed, failed, succeeded, ended}, want: []time.Duration{2, 4, 0, 0}},
		"it fails to start after it ended":             {events: []event{succeeded, ended, failed, failed, succeeded, ended}, want: []time.Duration{0, 0, 2, 4, 0, 2}},
	} {
		t.Run(what, func(t *testing.T) {
			now := time.Unix(1000, 0)
			b := newLoadBackoff(2*time.Second, 30*time.Second)
			b.now = func() time.Time { return now }
			var got []time.Duration
			for _, event := range tc.events {
				event(b)
				pause := max(b.remainingDelay(name, id), 0)
				got = append(got, pause/time.Second)
				now = now.Add(pause + tc.gap)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("back-off in seconds (-want +got):\n%s", diff)
			}
			failed(b)
			if left := b.remainingDelay(name, "u/2"); left > 0 {
				t.Errorf("a new generation has a back-off of %s", left)
			}
			b.forgetPlugin(name)
			if left := b.remainingDelay(name, id); left > 0 {
				t.Errorf("a recreated Plugin has a back-off of %s", left)
			}
		})
	}
}

// TestRecordSuccess_AfterExit records a successful load after its process has ended.
func TestRecordSuccess_AfterExit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := newLoadBackoff(2*time.Second, 30*time.Second)
	b.now = func() time.Time { return now }
	b.recordExit("example", "u/1")
	loaded := now
	now = now.Add(time.Millisecond)
	b.recordExit("example", "u/1")
	b.recordSuccess("example", "u/1", loaded)
	if left := b.remainingDelay("example", "u/1"); left != 2*time.Second {
		t.Errorf("the back-off is %s, want 2s", left)
	}
}
