// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// start is when the HookRuns of the tests start, in whole seconds as the API stores them.
var start = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// The possible outcomes of a call.
var (
	done        = callOutcome{Value: callResult{Answer: executor.Answer{Message: "frozen", Outputs: map[string]string{"replicas": "3"}}, duration: 42 * time.Millisecond}}
	notDone     = callOutcome{Value: callResult{Answer: executor.Answer{RetryAfter: 5 * time.Second, Message: "half way"}, duration: time.Second}}
	broken      = failed(executor.Failed)
	unreachable = failed(executor.Unreachable)
	late        = failed(executor.Timeout)
	invalid     = failed(executor.Invalid)
	cut         = failed(executor.Interrupted)
	unasked     = callOutcome{Value: callResult{notAttempted: true}, Err: failed(executor.Unreachable).Err}
	panicked    = callOutcome{Err: errors.New("internal error: nil map\nwith a password=hunter2 in its stack")}
)

func failed(kind executor.ErrorKind) callOutcome {
	call := executor.Call{Point: executor.PointPreBackup, Action: "example.io/freeze"}
	return callOutcome{Err: executor.NewError(kind, call, "it is "+string(kind), context.Canceled)}
}

// build returns a HookRun with desiredState Run that was never reconciled.
func build(edits ...func(*v1alpha1.HookRun)) *v1alpha1.HookRun {
	run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{
		Hook: v1alpha1.HookPreBackup, ActionName: "example.io/freeze",
		PluginRef: v1alpha1.PluginReference{Name: "example"},
		ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "nightly", UID: "b-1"},
		Timeout:   metav1.Duration{Duration: time.Minute}, FailurePolicy: v1alpha1.FailurePolicyFail,
		OnInterruption: v1alpha1.InterruptionPolicyRetry, DesiredState: v1alpha1.HookDesiredStateRun,
	}}
	run.UID, run.Generation = "r-1", 1
	for _, edit := range edits {
		edit(run)
	}
	return run
}

func wants(state v1alpha1.HookDesiredState) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) { run.Spec.DesiredState = state }
}

func owed(run *v1alpha1.HookRun) { run.Spec.Owed = true }

func givenUp(run *v1alpha1.HookRun) {
	run.Annotations = map[string]string{v1alpha1.AnnotationAbandonCleanup: "true"}
}

func ignoring(run *v1alpha1.HookRun) { run.Spec.FailurePolicy = v1alpha1.FailurePolicyIgnore }

func failOnInterruption(run *v1alpha1.HookRun) {
	run.Spec.OnInterruption = v1alpha1.InterruptionPolicyFail
}

func retries(n int32) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) { run.Spec.Retries = n }
}

// calledAt makes the first call of an attempt, at start plus after.
func calledAt(after time.Duration) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) {
		want := run.Spec.DesiredState
		run.Spec.DesiredState = v1alpha1.HookDesiredStateRun
		decide(run, observed{}, start.Add(after))
		run.Spec.DesiredState = want
	}
}

// interruptedCalls starts one operator per second, each of which stops at once. An action that does
// not continue without the operator is called again each time, except during the back-off after a
// failure.
func interruptedCalls(operators int) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) {
		for i := range operators {
			calledAt(time.Duration(i) * time.Second)(run)
		}
	}
}

// answeredAt ends the running call.
func answeredAt(after time.Duration, with callOutcome) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) {
		want := run.Spec.DesiredState
		run.Spec.DesiredState = v1alpha1.HookDesiredStateRun
		decide(run, observed{inFlight: true, result: &with}, start.Add(after))
		run.Spec.DesiredState = want
	}
}

// summary is what a user, or the controller of the Backup, reads from a HookRun.
type summary struct {
	phase   v1alpha1.HookRunPhase
	reason  string // of Succeeded
	message string // a part of it
	ended   bool
	attempt int32
	// attempts are the reasons of the attempts, "open" for the open one.
	attempts []string
	next     time.Duration // of NextCallTimestamp after start; 0 for none
}

func check(t testing.TB, run *v1alpha1.HookRun, want summary) {
	t.Helper()
	got := summary{
		phase: run.Status.Phase, message: run.Status.Message, ended: run.Status.CompletionTimestamp != nil,
		attempt: run.Status.Attempt,
	}
	if strings.Contains(got.message, want.message) {
		got.message = want.message
	}
	if c := conditions.Get(run, v1alpha1.ConditionSucceeded); c != nil {
		got.reason = c.Reason
	}
	for _, a := range run.Status.Attempts {
		reason := a.Reason
		if a.CompletionTimestamp == nil {
			reason = "open"
		}
		got.attempts = append(got.attempts, reason)
	}
	if run.Status.NextCallTimestamp != nil {
		got.next = run.Status.NextCallTimestamp.Sub(start)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(summary{})); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

type stateCase struct {
	run   *v1alpha1.HookRun
	known bool
	ended *callOutcome
	// resumes means that the action continues without the operator.
	resumes bool
	// withdrawn means that the Plugin no longer provides the action.
	withdrawn bool

	at   time.Duration // after start
	step decision
	want summary
}

func (tc stateCase) test(t *testing.T) {
	t.Helper()
	seen := observed{inFlight: tc.known, result: tc.ended, resumable: tc.resumes, actionRemoved: tc.withdrawn, redact: redactPassword}
	got := decide(tc.run, seen, start.Add(tc.at))
	if got != tc.step {
		t.Errorf("next is %+v, want %+v", got, tc.step)
	}
	check(t, tc.run, tc.want)
}

const (
	pendingPhase = v1alpha1.HookRunPhasePending
	inProgress   = v1alpha1.HookRunPhaseInProgress
	completed    = v1alpha1.HookRunPhaseCompleted
	failedPhase  = v1alpha1.HookRunPhaseFailed
	cancelled    = v1alpha1.HookRunPhaseCancelled
	skipped      = v1alpha1.HookRunPhaseSkipped

	waits  = v1alpha1.HookDesiredStateWait
	cancel = v1alpha1.HookDesiredStateCancel
)

func TestDecide_Start(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]stateCase{
		"waiting for its turn": {
			run:  build(wants(waits)),
			want: summary{phase: pendingPhase, reason: "Pending", message: "Waiting for its turn"},
		},
		"owed clean-up waits as well": {
			run:  build(wants(waits), owed),
			want: summary{phase: pendingPhase, reason: "Pending", message: "Waiting for its turn"},
		},
		"started": {
			run: build(), step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		},
		"the call still runs": {
			run: build(calledAt(0)), known: true, at: time.Hour,
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		},
		"not needed": {
			run:  build(wants(cancel)),
			want: summary{phase: skipped, reason: "NotNeeded", message: "Not needed", ended: true},
		},
		"owed clean-up of a Pre action that never started": {
			run:  build(wants(cancel), owed),
			want: summary{phase: skipped, reason: "NotNeeded", message: "Not needed", ended: true},
		},
	} {
		t.Run(name, tc.test)
	}
}

func TestDecide_Answer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]stateCase{
		"done": {
			run: build(calledAt(0)), known: true, ended: &done, at: time.Second,
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 1, attempts: []string{""}},
		},
		"done without a message": {
			run: build(calledAt(0)), known: true, ended: &callOutcome{}, at: time.Second,
			want: summary{phase: completed, reason: "Completed", message: "Done", ended: true, attempt: 1, attempts: []string{""}},
		},
		"call again later": {
			run: build(calledAt(0)), known: true, ended: &notDone, at: 2 * time.Second, step: decision{requeueAfter: 5 * time.Second},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}, next: 7 * time.Second},
		},
		"the next call is not earlier than requested": {
			run: build(calledAt(0)), known: true, ended: &notDone, at: 2100 * time.Millisecond, step: decision{requeueAfter: 5900 * time.Millisecond},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}, next: 8 * time.Second},
		},
		"the next call is not after the deadline": {
			run: build(calledAt(0)), known: true, ended: &notDone, at: 58 * time.Second, step: decision{requeueAfter: 2 * time.Second},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}, next: time.Minute},
		},
		"the next call is not due yet": {
			run: build(calledAt(0), answeredAt(0, notDone)), at: 2 * time.Second, step: decision{requeueAfter: 3 * time.Second},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}, next: 5 * time.Second},
		},
		"the next call is due": {
			run: build(calledAt(0), answeredAt(0, notDone)), at: 5 * time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}},
		},
		"not done before the deadline": {
			run: build(calledAt(0), answeredAt(58*time.Second, notDone)), at: time.Minute,
			want: summary{phase: failedPhase, reason: "TimedOut", message: "did not finish before its deadline", ended: true, attempt: 1, attempts: []string{"TimedOut"}},
		},
		"not done before the deadline, and retried": {
			run: build(retries(1), calledAt(0), answeredAt(58*time.Second, notDone)), at: time.Minute, step: decision{requeueAfter: time.Second},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 1 failed and will be retried: did not finish before its deadline", attempt: 1, attempts: []string{"TimedOut"}, next: 61 * time.Second},
		},
		"not done before the deadline, and ignored": {
			run: build(ignoring, calledAt(0), answeredAt(58*time.Second, notDone)), at: time.Minute,
			want: summary{phase: completed, reason: "FailureIgnored", message: "ignored: did not finish before its deadline", ended: true, attempt: 1, attempts: []string{"TimedOut"}},
		},
	} {
		t.Run(name, tc.test)
	}
}
