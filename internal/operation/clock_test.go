// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestOperationDeadline_ClockChanges: an operation times out when its timeout has passed by the monotonic clock,
// even if the wall clock is set.
func TestOperationDeadline_ClockChanges(t *testing.T) {
	t.Parallel()
	const timeout = time.Hour
	created := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// first and then are the times of the two reconciles, after the creation.
		first, then time.Duration
		// server is the server time of the first reconcile, after the creation; 0 if unknown.
		server time.Duration
		// set is how far the clock is set between them. The process does not see that, so
		// the test moves the deadline instead.
		set  time.Duration
		want bool
	}{
		"before the deadline":                        {then: timeout - time.Second},
		"at the deadline":                            {then: timeout, want: true},
		"the clock is set a year ahead":              {first: time.Minute, then: 2 * time.Minute, set: 8760 * time.Hour},
		"the clock is set a year back":               {first: time.Minute, then: timeout, set: -8760 * time.Hour, want: true},
		"created by a clock that was ahead, expired": {first: -720 * time.Hour, then: -720*time.Hour + timeout, want: true},
		"created by a clock that was ahead":          {first: -720 * time.Hour, then: -720*time.Hour + timeout - time.Second},
		"the clock is ahead from the start":          {first: 25 * time.Hour, then: 25*time.Hour + 10*time.Minute, server: time.Minute},
		"the clock is ahead, expired":                {first: 25 * time.Hour, then: 25*time.Hour + 59*time.Minute, server: time.Minute, want: true},
		"expired by all clocks":                      {first: 25 * time.Hour, then: 25*time.Hour + time.Second, server: 25 * time.Hour, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
			op.Spec.Timeout.Duration = timeout
			m, mem := &Machine{ConfirmTimeout: time.Minute, Jitter: func() float64 { return 0 }}, &Memory{}
			seen := Observed{}
			if tc.server > 0 {
				seen.ServerTime = created.Add(tc.server)
			}
			m.Decide(op, mem, seen, created.Add(tc.first))
			op.Status.Deadline = new(metav1.NewTime(op.Status.Deadline.Add(-tc.set)))
			m.Decide(op, mem, Observed{}, created.Add(tc.then))
			if got := op.Status.Cancel != nil && op.Status.Cancel.Cause == v1alpha1.CancelCauseTimedOut; got != tc.want {
				t.Errorf("timed out = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestSetConfirmDeadline_ClockChanges: a plugin has ConfirmTimeout to end an operation, by the monotonic clock of
// the process that waits for it.
func TestSetConfirmDeadline_ClockChanges(t *testing.T) {
	t.Parallel()
	const confirm = 5 * time.Minute
	requested := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// set is how far the clock is set after the request was written. The process does not see
		// that, so the test moves the deadline instead.
		set time.Duration
		// restarted means that another process continues from the written status.
		restarted bool
		after     time.Duration
		want      bool
	}{
		"before the deadline":                {after: confirm - time.Second},
		"at the deadline":                    {after: confirm, want: true},
		"the clock is set a year back":       {set: -8760 * time.Hour, after: confirm, want: true},
		"the clock is set back, not expired": {set: -8760 * time.Hour, after: confirm - time.Second},
		"the clock is set a year ahead":      {set: 8760 * time.Hour, after: confirm - time.Second},
		"recorded by a clock a year off":     {set: -8760 * time.Hour, restarted: true, after: confirm + time.Second, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(requested)}}
			op.Spec.Timeout.Duration, op.Spec.DesiredState = time.Hour, v1alpha1.DesiredStateCancel
			m, mem := &Machine{ConfirmTimeout: confirm, Jitter: func() float64 { return 0 }}, &Memory{}
			m.Decide(op, mem, Observed{}, requested)
			mem.RecordWritten(&op.Status)
			op.Status.Cancel.Deadline = metav1.NewTime(op.Status.Cancel.Deadline.Add(-tc.set))
			if tc.restarted {
				mem = &Memory{}
			}
			answer := Observed{Poll: &PollResult{}, Cancel: &CancelResult{}}
			m.Decide(op, mem, answer, requested.Add(time.Millisecond))
			step := m.Decide(op, mem, Observed{}, requested.Add(tc.after))
			if op.Ended() != tc.want {
				t.Errorf("Ended() = %t, want %t", op.Ended(), tc.want)
			}
			if step.RequeueAfter > confirm {
				t.Errorf("RequeueAfter is %s", step.RequeueAfter)
			}
		})
	}
}
