// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"slices"
	"testing"
	"time"
)

func TestDecide_Failure(t *testing.T) {
	t.Parallel()
	const text = "it is "
	for name, tc := range map[string]stateCase{
		"failed": {
			run: build(calledAt(0)), known: true, ended: &broken, at: time.Second,
			want: summary{phase: failedPhase, reason: "ActionFailed", message: text + "Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"unreachable": {
			run: build(calledAt(0)), known: true, ended: &unreachable, at: time.Second,
			want: summary{phase: failedPhase, reason: "PluginUnreachable", message: text + "Unreachable", ended: true, attempt: 1, attempts: []string{"PluginUnreachable"}},
		},
		"an explicit failure is never ignored": {
			run: build(ignoring, calledAt(0)), known: true, ended: &broken, at: time.Second,
			want: summary{phase: failedPhase, reason: "ActionFailed", message: text + "Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"a misconfiguration is never ignored": {
			run: build(ignoring, calledAt(0)), known: true, ended: &invalid, at: time.Second,
			want: summary{phase: failedPhase, reason: "Invalid", message: text + "Invalid", ended: true, attempt: 1, attempts: []string{"Invalid"}},
		},
		"a misconfiguration is not retried": {
			run: build(retries(3), calledAt(0)), known: true, ended: &invalid, at: time.Second,
			want: summary{phase: failedPhase, reason: "Invalid", message: text + "Invalid", ended: true, attempt: 1, attempts: []string{"Invalid"}},
		},
		"an unreachable plugin is ignored": {
			run: build(ignoring, calledAt(0)), known: true, ended: &unreachable, at: time.Second,
			want: summary{phase: completed, reason: "FailureIgnored", message: "ignored: " + text + "Unreachable", ended: true, attempt: 1, attempts: []string{"PluginUnreachable"}},
		},
		"a timeout is ignored": {
			run: build(ignoring, calledAt(0)), known: true, ended: &late, at: time.Second,
			want: summary{phase: completed, reason: "FailureIgnored", message: "ignored: " + text + "Timeout", ended: true, attempt: 1, attempts: []string{"TimedOut"}},
		},
		"ignored only after its retries": {
			run: build(ignoring, retries(1), calledAt(0)), known: true, ended: &late, at: time.Second, step: decision{requeueAfter: time.Second},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 1 failed and will be retried: " + text + "Timeout", attempt: 1, attempts: []string{"TimedOut"}, next: 2 * time.Second},
		},
		"the message of a panic contains no secret": {
			run: build(calledAt(0)), known: true, ended: &panicked, at: time.Second,
			want: summary{phase: failedPhase, reason: "ActionFailed", message: "internal error; see the operator's log", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"the back-off before a retry": {
			run: build(retries(1), calledAt(0), answeredAt(time.Second, broken)), at: 1500 * time.Millisecond, step: decision{requeueAfter: 500 * time.Millisecond},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 1 failed and will be retried", attempt: 1, attempts: []string{"ActionFailed"}, next: 2 * time.Second},
		},
		"the back-off is not shortened by rounding": {
			run: build(retries(1), calledAt(0)), known: true, ended: &broken, at: 1500 * time.Millisecond, step: decision{requeueAfter: 1500 * time.Millisecond},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 1 failed and will be retried", attempt: 1, attempts: []string{"ActionFailed"}, next: 3 * time.Second},
		},
		"the retry": {
			run: build(retries(1), calledAt(0), answeredAt(time.Second, broken)), at: 2 * time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"ActionFailed", "open"}},
		},
		"the last retry failed": {
			run: build(retries(1), calledAt(0), answeredAt(time.Second, broken), calledAt(2*time.Second)), known: true, ended: &late, at: time.Minute,
			want: summary{phase: failedPhase, reason: "TimedOut", message: text + "Timeout", ended: true, attempt: 2, attempts: []string{"ActionFailed", "TimedOut"}},
		},
		"a retry succeeded": {
			run: build(retries(1), calledAt(0), answeredAt(time.Second, broken), calledAt(2*time.Second)), known: true, ended: &done, at: time.Minute,
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 2, attempts: []string{"ActionFailed", ""}},
		},
	} {
		t.Run(name, tc.test)
	}
}

func TestDecide_Interruption(t *testing.T) {
	t.Parallel()
	const gone, text = "the operator stopped while the action was running", "it is Failed"
	for name, tc := range map[string]stateCase{
		"called again after a restart": {
			run: build(calledAt(0)), at: time.Hour, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"Interrupted", "open"}},
		},
		"not called again after a restart": {
			run: build(failOnInterruption, retries(3), ignoring, calledAt(0)), at: time.Hour,
			want: summary{phase: failedPhase, reason: "Interrupted", message: gone, ended: true, attempt: 1, attempts: []string{"Interrupted"}},
		},
		"owed clean-up is called again regardless of the policy": {
			run: build(failOnInterruption, owed, calledAt(0)), at: time.Hour, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"Interrupted", "open"}},
		},
		"the stopping operator ends the call": {
			run: build(calledAt(0)), known: true, ended: &cut, at: time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"Interrupted", "open"}},
		},
		"the stopping operator ends a call that must not be repeated": {
			run: build(failOnInterruption, calledAt(0)), known: true, ended: &cut, at: time.Second,
			want: summary{phase: failedPhase, reason: "Interrupted", message: gone, ended: true, attempt: 1, attempts: []string{"Interrupted"}},
		},
		"between two calls of an attempt nothing is interrupted": {
			run: build(failOnInterruption, calledAt(0), answeredAt(0, notDone)), at: 6 * time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}},
		},
		"between two attempts nothing is interrupted": {
			run: build(failOnInterruption, retries(1), calledAt(0), answeredAt(0, broken)), at: 6 * time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"ActionFailed", "open"}},
		},
		"fifteen interruptions use up no retry": {
			run: build(retries(1), interruptedCalls(16)), known: true, ended: &broken, at: 16 * time.Second, step: decision{requeueAfter: time.Second},
			want: summary{
				phase: inProgress, reason: "Retrying", message: "Attempt 16 failed and will be retried", attempt: 16,
				attempts: append(slices.Repeat([]string{"Interrupted"}, 9), "ActionFailed"), next: 17 * time.Second,
			},
		},
		"interruptions do not reset the failures": {
			run: build(retries(1), calledAt(0), answeredAt(0, broken), interruptedCalls(16)), known: true, ended: &broken, at: 16 * time.Second,
			want: summary{
				phase: failedPhase, reason: "ActionFailed", message: text, ended: true, attempt: 16,
				attempts: append(slices.Repeat([]string{"Interrupted"}, 9), "ActionFailed"),
			},
		},
		"an interruption does not use up a retry": {
			run: build(retries(1), calledAt(0), calledAt(time.Second)), known: true, ended: &broken, at: 2 * time.Second, step: decision{requeueAfter: time.Second},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 2 failed and will be retried", attempt: 2, attempts: []string{"Interrupted", "ActionFailed"}, next: 3 * time.Second},
		},
	} {
		t.Run(name, tc.test)
	}
}

func TestDecide_Cancel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]stateCase{
		"while the call runs": {
			run: build(wants(cancel), calledAt(0)), known: true, step: decision{command: cancelCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		},
		"the call was canceled": {
			run: build(wants(cancel), calledAt(0)), known: true, ended: &cut, at: time.Second,
			want: summary{phase: cancelled, reason: "Cancelled", message: "Canceled while running", ended: true, attempt: 1, attempts: []string{"Cancelled"}},
		},
		"the action succeeded before it could be canceled": {
			run: build(wants(cancel), calledAt(0)), known: true, ended: &done, at: time.Second,
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 1, attempts: []string{""}},
		},
		"the action failed before it could be canceled": {
			run: build(wants(cancel), calledAt(0)), known: true, ended: &broken, at: time.Second,
			want: summary{phase: failedPhase, reason: "ActionFailed", message: "it is Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"after a restart": {
			run: build(wants(cancel), calledAt(0)), at: time.Second,
			want: summary{phase: cancelled, reason: "Cancelled", message: "Canceled before it finished", ended: true, attempt: 1, attempts: []string{"Cancelled"}},
		},
		"between two calls": {
			run: build(wants(cancel), calledAt(0), answeredAt(0, notDone)), at: time.Second,
			want: summary{phase: cancelled, reason: "Cancelled", message: "Canceled before it finished", ended: true, attempt: 1, attempts: []string{"Cancelled"}},
		},
		"between two attempts": {
			run: build(wants(cancel), retries(1), calledAt(0), answeredAt(0, broken)), at: time.Second,
			want: summary{phase: cancelled, reason: "Cancelled", message: "Canceled before it finished", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"running owed clean-up is not canceled": {
			run: build(wants(cancel), owed, calledAt(0)), known: true,
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		},
		"failed owed clean-up is retried": {
			run: build(wants(cancel), owed, calledAt(0), answeredAt(0, broken)), at: time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"ActionFailed", "open"}},
		},
		"running owed clean-up was abandoned": {
			run: build(wants(cancel), owed, givenUp, calledAt(0)), known: true, step: decision{command: cancelCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		},
		"failed owed clean-up was abandoned": {
			run: build(wants(cancel), owed, givenUp, calledAt(0), answeredAt(0, broken)), at: time.Second,
			want: summary{phase: cancelled, reason: "Cancelled", message: "Canceled before it finished", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		},
		"owed clean-up is retried after a restart": {
			run: build(wants(cancel), owed, calledAt(0)), at: time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2", attempt: 2, attempts: []string{"Interrupted", "open"}},
		},
	} {
		t.Run(name, tc.test)
	}
}
