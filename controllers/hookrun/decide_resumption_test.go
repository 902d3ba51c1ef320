// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestDecide_RepeatedResumption restarts the operator several times while a Job runs, which then
// fails: that is one attempt and one failure.
func TestDecide_RepeatedResumption(t *testing.T) {
	t.Parallel()
	run := build(failOnInterruption, retries(1), calledAt(0))
	for i := range 15 {
		if next := decide(run, observed{resumable: true}, start.Add(time.Duration(i)*time.Second)); next != (decision{command: resumeCall}) {
			t.Fatalf("restart %d: next is %+v, want the attempt resumed", i, next)
		}
	}
	t.Run("fails", stateCase{
		run: run, known: true, ended: &broken, resumes: true, at: 15 * time.Second, step: decision{requeueAfter: time.Second},
		want: summary{
			phase: inProgress, reason: v1alpha1.ReasonRetrying, message: "Attempt 1 failed and will be retried", attempt: 1,
			attempts: []string{v1alpha1.ReasonActionFailed}, next: 16 * time.Second,
		},
	}.test)
}

// TestDecide_Resumption covers actions that continue after the operator stops.
func TestDecide_Resumption(t *testing.T) {
	t.Parallel()
	running := summary{phase: inProgress, reason: v1alpha1.ReasonRunning, message: "Running attempt 1", attempt: 1, attempts: []string{"open"}}
	for name, tc := range map[string]stateCase{
		"followed": {run: build(calledAt(0)), at: time.Second, step: decision{command: resumeCall}, want: running},
		"resumed, regardless of onInterruption": {
			run: build(failOnInterruption, calledAt(0)), at: time.Second, step: decision{command: resumeCall}, want: running,
		},
		"owed, and canceled": {
			run: build(owed, wants(cancel), calledAt(0)), at: time.Second, step: decision{command: resumeCall}, want: running,
		},
		"cancelled": {run: build(wants(cancel), calledAt(0)), at: time.Second, step: decision{command: stopLeftovers}, want: running},
		"overdue":   {run: build(calledAt(0)), at: time.Minute, step: decision{command: stopLeftovers}, want: running},
		"withdrawn": {run: build(calledAt(0)), withdrawn: true, at: time.Second, step: decision{command: stopLeftovers}, want: running},
		"reading the input fails": {
			run: build(retries(1), calledAt(0)), known: true, ended: &unasked, at: time.Second, step: decision{requeueAfter: minRetryBackoff}, want: running,
		},
		"reading the input fails until the deadline": {
			run: build(retries(1), calledAt(0)), known: true, ended: &unasked, at: time.Minute, step: decision{command: stopLeftovers}, want: running,
		},
		"canceled while the input is read": {
			run: build(wants(cancel), calledAt(0)), known: true, ended: &unasked, at: time.Second, step: decision{command: stopLeftovers}, want: running,
		},
		"not called yet": {
			run: build(), step: decision{command: startCall}, want: running,
		},
		"to be called again": {
			run: build(calledAt(0), answeredAt(time.Second, notDone)), at: 2 * time.Second, step: decision{requeueAfter: 4 * time.Second},
			want: summary{
				phase: inProgress, reason: v1alpha1.ReasonCalledAgainLater, message: "half way", attempt: 1,
				attempts: []string{"open"}, next: 6 * time.Second,
			},
		},
		"the operator stops": {run: build(failOnInterruption, calledAt(0)), known: true, ended: &cut, at: time.Second, want: running},
		"stopped because of cancellation": {
			run: build(wants(cancel), calledAt(0)), known: true, ended: &cut, at: time.Second,
			want: summary{
				phase: cancelled, reason: v1alpha1.ReasonCancelled, message: "Canceled while running", ended: true, attempt: 1,
				attempts: []string{v1alpha1.ReasonCancelled},
			},
		},
		"stopped because it was overdue": {
			run: build(calledAt(0)), known: true, ended: &late, at: time.Minute,
			want: summary{
				phase: failedPhase, reason: v1alpha1.ReasonTimedOut, message: "it is Timeout", ended: true, attempt: 1,
				attempts: []string{v1alpha1.ReasonTimedOut},
			},
		},
	} {
		tc.resumes = true
		t.Run(name, tc.test)
	}
}

// TestDecide_Removing covers the resources of an action. While the action may be called again,
// the next attempt stops them. They must not be deleted before the answer is recorded.
func TestDecide_Removing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  *v1alpha1.HookRun
		seen observed
		want bool
	}{
		"succeeded":              {build(calledAt(0)), observed{inFlight: true, result: &done, mayLeaveResources: true}, true},
		"failed":                 {build(calledAt(0)), observed{inFlight: true, result: &broken, mayLeaveResources: true}, true},
		"will be retried":        {build(retries(1), calledAt(0)), observed{inFlight: true, result: &broken, mayLeaveResources: true}, false},
		"will be called again":   {build(calledAt(0)), observed{inFlight: true, result: &notDone, mayLeaveResources: true}, false},
		"still runs":             {build(calledAt(0)), observed{inFlight: true, mayLeaveResources: true}, false},
		"ends with the operator": {build(calledAt(0)), observed{inFlight: true, result: &done}, false},
		"abandoned in back-off":  {build(retries(1), calledAt(0), answeredAt(0, broken), wants(cancel)), observed{mayLeaveResources: true}, true},
		"never ran":              {build(wants(cancel)), observed{mayLeaveResources: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if decide(tc.run, tc.seen, start.Add(time.Second)); tc.run.Status.Removing != tc.want {
				t.Errorf("status.removing = %t, want %t; phase %s", tc.run.Status.Removing, tc.want, tc.run.Status.Phase)
			}
		})
	}
}
