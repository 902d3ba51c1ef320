// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestDecide_ClockSetBack: no wait exceeds the longest back-off, even if the recorded times come from a
// wrong clock.
func TestDecide_ClockSetBack(t *testing.T) {
	t.Parallel()
	recorded := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	failed := []v1alpha1.HookAttempt{{
		Number: 1, StartTimestamp: v1alpha1.NewMicroTime(recorded.Add(-time.Minute)), CompletionTimestamp: new(v1alpha1.NewMicroTime(recorded)),
		Deadline: metav1.NewTime(recorded.Add(9 * time.Minute)), Reason: v1alpha1.ReasonActionFailed,
	}}
	open := []v1alpha1.HookAttempt{{
		Number: 1, StartTimestamp: v1alpha1.NewMicroTime(recorded), Deadline: metav1.NewTime(recorded.Add(10 * time.Minute)),
	}}
	for name, tc := range map[string]struct {
		attempts []v1alpha1.HookAttempt
		next     time.Duration
		setBack  time.Duration
		// passed is how much of the wait this process has seen; nil if the process starts now.
		passed   *time.Duration
		wantCall bool
		wantWait time.Duration
		// wantLeft is the time to the deadline of the open attempt.
		wantLeft time.Duration
	}{
		"retry, clock correct":                    {attempts: failed, next: 4 * time.Minute, wantWait: 4 * time.Minute},
		"retry, clock set back 30 seconds":        {attempts: failed, next: 4 * time.Minute, setBack: 30 * time.Second, wantWait: 4*time.Minute + 30*time.Second},
		"retry, clock set back 30 days":           {attempts: failed, next: 4 * time.Minute, setBack: 720 * time.Hour, wantCall: true, wantLeft: 10 * time.Minute},
		"next call, clock correct":                {attempts: open, next: time.Minute, wantWait: time.Minute, wantLeft: 10 * time.Minute},
		"next call, clock set back 5 minutes":     {attempts: open, next: time.Minute, setBack: 5 * time.Minute, passed: new(20 * time.Second), wantWait: 40 * time.Second, wantLeft: 10 * time.Minute},
		"next call due, clock set back 5 minutes": {attempts: open, next: time.Minute, setBack: 5 * time.Minute, passed: new(time.Minute), wantCall: true, wantLeft: 10 * time.Minute},
		"retry due, clock set back 2 minutes":     {attempts: failed, next: 2 * time.Minute, setBack: 2 * time.Minute, passed: new(2 * time.Minute), wantCall: true, wantLeft: 10 * time.Minute},
		"next call, clock set back 1 hour":        {attempts: open, next: time.Minute, setBack: time.Hour, wantCall: true, wantLeft: 10 * time.Minute},
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
			if (got.command == startCall) != tc.wantCall || got.requeueAfter != tc.wantWait {
				t.Errorf("startCall = %t, requeueAfter = %s; want %t, %s", got.command == startCall, got.requeueAfter, tc.wantCall, tc.wantWait)
			}
			if a := openAttempt(run); a != nil && a.Deadline.Sub(now) != tc.wantLeft {
				t.Errorf("the deadline is in %s, want %s", a.Deadline.Sub(now), tc.wantLeft)
			}
		})
	}
}
