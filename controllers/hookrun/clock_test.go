// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestClockSetBack: no wait is longer than the largest pause, whatever a clock recorded that was
// wrong.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	recorded := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	failed := []v1alpha1.HookAttempt{{
		Number: 1, StartTimestamp: metav1.NewTime(recorded.Add(-time.Minute)), CompletionTimestamp: new(metav1.NewTime(recorded)),
		Deadline: metav1.NewTime(recorded.Add(9 * time.Minute)), Reason: v1alpha1.ReasonActionFailed,
	}}
	open := []v1alpha1.HookAttempt{{
		Number: 1, StartTimestamp: metav1.NewTime(recorded), Deadline: metav1.NewTime(recorded.Add(10 * time.Minute)),
	}}
	for name, tc := range map[string]struct {
		attempts []v1alpha1.HookAttempt
		next     time.Duration
		setBack  time.Duration
		// passed is how much of the wait has passed in the life of the process; nil if it began now.
		passed   *time.Duration
		wantCall bool
		wantWait time.Duration
		// wantLeft is the time to the deadline of the open attempt.
		wantLeft time.Duration
	}{
		"a retry, and the clock is right":                       {attempts: failed, next: 4 * time.Minute, wantWait: 4 * time.Minute},
		"a retry, and it was set back a little":                 {attempts: failed, next: 4 * time.Minute, setBack: 30 * time.Second, wantWait: 4*time.Minute + 30*time.Second},
		"a retry, and it was set back 30 days":                  {attempts: failed, next: 4 * time.Minute, setBack: 720 * time.Hour, wantCall: true, wantLeft: 10 * time.Minute},
		"another call, and the clock is right":                  {attempts: open, next: time.Minute, wantWait: time.Minute, wantLeft: 10 * time.Minute},
		"another call, and it was set back 5 minutes":           {attempts: open, next: time.Minute, setBack: 5 * time.Minute, passed: new(20 * time.Second), wantWait: 40 * time.Second, wantLeft: 10 * time.Minute},
		"another call whose time has come, and it was set back": {attempts: open, next: time.Minute, setBack: 5 * time.Minute, passed: new(time.Minute), wantCall: true, wantLeft: 10 * time.Minute},
		"a retry whose time has come, and it was set back":      {attempts: failed, next: 2 * time.Minute, setBack: 2 * time.Minute, passed: new(2 * time.Minute), wantCall: true, wantLeft: 10 * time.Minute},
		"another call, and it was set back 1 hour":              {attempts: open, next: time.Minute, setBack: time.Hour, wantCall: true, wantLeft: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := recorded.Add(-tc.setBack)
			run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{
				Owed: true, DesiredState: v1alpha1.HookDesiredStateRun, Timeout: metav1.Duration{Duration: 10 * time.Minute},
			}}
			run.Status = v1alpha1.HookRunStatus{
				Phase: v1alpha1.HookRunPhaseInProgress, Attempt: 1, StartTimestamp: new(metav1.NewTime(recorded)),
				NextCallTimestamp: new(metav1.NewTime(recorded.Add(tc.next))),
			}
			for _, attempt := range tc.attempts {
				run.Status.Attempts = append(run.Status.Attempts, *attempt.DeepCopy())
			}
			seen := observed{}
			if tc.passed != nil {
				seen.nextCall = now.Add(tc.next - *tc.passed)
			}
			got := decide(run, seen, now)
			if got.startCall != tc.wantCall || got.requeueAfter != tc.wantWait {
				t.Errorf("it is called: %t, or after %s; want %t, or after %s", got.startCall, got.requeueAfter, tc.wantCall, tc.wantWait)
			}
			if a := openAttempt(run); a != nil && a.Deadline.Sub(now) != tc.wantLeft {
				t.Errorf("its deadline is in %s, want %s", a.Deadline.Sub(now), tc.wantLeft)
			}
		})
	}
}
