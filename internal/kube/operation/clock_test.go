// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestDeadlineAndClocks: an operation times out when its time has passed in the life of the process,
// whatever a clock that is set says of its deadline.
func TestDeadlineAndClocks(t *testing.T) {
	t.Parallel()
	const timeout = time.Hour
	created := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// first and then are when the operation is looked at, after its creation.
		first, then time.Duration
		// server is what the API server says the first time, after the creation; 0 if it is not asked.
		server time.Duration
		// set is by how much the clock is set between them. The process does not see that, so
		// that it is the deadline that is moved.
		set  time.Duration
		want bool
	}{
		"its time is not over":                       {then: timeout - time.Second},
		"its time is over":                           {then: timeout, want: true},
		"the clock is set a year ahead":              {first: time.Minute, then: 2 * time.Minute, set: 8760 * time.Hour},
		"the clock is set a year back":               {first: time.Minute, then: timeout, set: -8760 * time.Hour, want: true},
		"it was created by a clock that was ahead":   {first: -720 * time.Hour, then: -720*time.Hour + timeout, want: true},
		"that clock was ahead, and time is not over": {first: -720 * time.Hour, then: -720*time.Hour + timeout - time.Second},
		"the clock is ahead from the beginning":      {first: 25 * time.Hour, then: 25*time.Hour + 10*time.Minute, server: time.Minute},
		"it is ahead, and time is over":              {first: 25 * time.Hour, then: 25*time.Hour + 59*time.Minute, server: time.Minute, want: true},
		"all clocks say that its time is over":       {first: 25 * time.Hour, then: 25*time.Hour + time.Second, server: 25 * time.Hour, want: true},
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
				t.Errorf("it timed out: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestConfirmAndClocks: a plugin has Confirm to end an operation, in the life of the process that
// waits for it.
func TestConfirmAndClocks(t *testing.T) {
	t.Parallel()
	const confirm = 5 * time.Minute
	requested := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		// set is by how much the clock is set after the cancel was written. The process does not see
		// that, so that it is the deadline that is moved.
		set time.Duration
		// restarted says that another process goes on with what was written.
		restarted bool
		after     time.Duration
		want      bool
	}{
		"its time is not over":                   {after: confirm - time.Second},
		"its time is over":                       {after: confirm, want: true},
		"the clock is set a year back":           {set: -8760 * time.Hour, after: confirm, want: true},
		"it is set back, and time is not over":   {set: -8760 * time.Hour, after: confirm - time.Second},
		"it is set a year ahead":                 {set: 8760 * time.Hour, after: confirm - time.Second},
		"it was recorded by a clock a year away": {set: -8760 * time.Hour, restarted: true, after: confirm + time.Second, want: true},
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
				t.Errorf("it has ended: %t, want %t", op.Ended(), tc.want)
			}
			if step.RequeueAfter > confirm {
				t.Errorf("asks again after %s", step.RequeueAfter)
			}
		})
	}
}
