// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// redactPassword removes the secret of the tests.
func redactPassword(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }

// requests is a new request of a user.
func requests(id string, what v1alpha1.HookInterventionType) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) {
		run.Spec.Intervention = &v1alpha1.HookIntervention{ID: id, Type: what, User: "jane", Reason: "the password\n\x1b is hunter2"}
	}
}

var (
	retry = requests("1", v1alpha1.HookInterventionRetry)
	skip  = requests("1", v1alpha1.HookInterventionSkip)
)

// postAction makes it an action whose failure does not change the outcome of the run.
func postAction(run *v1alpha1.HookRun) { run.Spec.Hook = v1alpha1.HookPostBackup }

// reconciledAt makes one decision without a call, at start plus after.
func reconciledAt(after time.Duration) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) { decide(run, observed{redact: redactPassword}, start.Add(after)) }
}

// runningAt makes one decision while the call runs, at start plus after.
func runningAt(after time.Duration) func(*v1alpha1.HookRun) {
	return func(run *v1alpha1.HookRun) {
		decide(run, observed{inFlight: true, redact: redactPassword}, start.Add(after))
	}
}

// interventionCase is a stateCase with what is recorded of the intervention.
type interventionCase struct {
	stateCase
	outcome v1alpha1.HookInterventionOutcome // empty if it was not handled yet
	message string
	// failures is status.failures.
	failures int32
}

func (tc interventionCase) test(t *testing.T) {
	tc.stateCase.test(t)
	last := tc.run.Status.LastIntervention
	if (last == nil) != (tc.outcome == "") {
		t.Fatalf("it is handled: %v, want %q", last, tc.outcome)
	}
	if got := tc.run.Status.Failures; got != tc.failures {
		t.Errorf("%d failures, want %d", got, tc.failures)
	}
	if last == nil {
		return
	}
	if last.Outcome != tc.outcome || last.Message != tc.message || last.ID != "1" || last.User != "jane" {
		t.Errorf("the intervention is %+v, want %s with %q", last, tc.outcome, tc.message)
	}
	if want := "the password is [redacted]"; last.Reason != want || last.HandledTimestamp.IsZero() {
		t.Errorf("the intervention is %+v, want the reason %q and a time", last, want)
	}
	if done := decide(tc.run, observed{redact: redactPassword}, start); tc.run.Status.CompletionTimestamp != nil && done != (decision{}) {
		t.Errorf("it is handled a second time: %+v", done)
	}
}

const (
	byJane    = "by jane: the password is [redacted]"
	retried   = "Retried " + byJane
	skippedBy = "Skipped " + byJane
)

func TestDecide_Retry(t *testing.T) {
	t.Parallel()
	const accepted, refused = v1alpha1.HookInterventionAccepted, v1alpha1.HookInterventionRefused
	failedTwice := build(postAction, retries(1), calledAt(0), answeredAt(0, broken), calledAt(2*time.Second), answeredAt(2*time.Second, broken), retry)
	for name, tc := range map[string]interventionCase{
		"during the back-off after a failure": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(retries(1), calledAt(0), answeredAt(0, broken), retry), at: 100 * time.Millisecond, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2. " + retried, attempt: 2, attempts: []string{"ActionFailed", "open"}},
		}},
		"owed clean-up that keeps failing": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(owed, calledAt(0), answeredAt(0, broken), retry), at: 100 * time.Millisecond, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2. " + retried, attempt: 2, attempts: []string{"ActionFailed", "open"}},
		}},
		"owed clean-up of a canceled run": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(owed, wants(cancel), calledAt(0), answeredAt(0, broken), retry), at: 100 * time.Millisecond, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2. " + retried, attempt: 2, attempts: []string{"ActionFailed", "open"}},
		}},
		"an action that asked to be called again later": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(calledAt(0), answeredAt(0, notDone), retry), at: time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "CalledAgainLater", message: "half way", attempt: 1, attempts: []string{"open"}},
		}},
		"a failed Post action": {outcome: accepted, message: retried, stateCase: stateCase{
			run: failedTwice, at: time.Hour, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 3. " + retried, attempt: 3, attempts: []string{"ActionFailed", "ActionFailed", "open"}},
		}},
		"a failed Post action whose call is still known": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(postAction, calledAt(0), answeredAt(0, broken), retry), known: true, ended: &broken, at: time.Second, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 2. " + retried, attempt: 2, attempts: []string{"ActionFailed", "open"}},
		}},
		"all retries are available again": {outcome: accepted, message: retried, failures: 1, stateCase: stateCase{
			run:   build(func(run *v1alpha1.HookRun) { *run = *failedTwice.DeepCopy() }, reconciledAt(time.Hour)),
			known: true, ended: &broken, at: time.Hour, step: decision{requeueAfter: time.Second},
			want: summary{
				phase: inProgress, reason: "Retrying", message: "Attempt 3 failed and will be retried", attempt: 3,
				attempts: []string{"ActionFailed", "ActionFailed", "ActionFailed"}, next: time.Hour + time.Second,
			},
		}},
		"the retry succeeded": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(postAction, calledAt(0), answeredAt(0, broken), retry, reconciledAt(time.Hour)), known: true, ended: &done, at: time.Hour,
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 2, attempts: []string{"ActionFailed", ""}},
		}},
		"the operator stopped during the retry": {outcome: accepted, message: retried, stateCase: stateCase{
			run: build(postAction, calledAt(0), answeredAt(0, broken), retry, reconciledAt(time.Hour)), at: time.Hour, step: decision{command: startCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 3", attempt: 3, attempts: []string{"ActionFailed", "Interrupted", "open"}},
		}},
		"while the call runs": {outcome: refused, message: "Retry refused: it is running", stateCase: stateCase{
			run: build(calledAt(0), retry), known: true,
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		}},
		"when the call has just failed, its outcome is first": {failures: 1, stateCase: stateCase{
			run: build(retries(1), calledAt(0), retry), known: true, ended: &broken, step: decision{requeueAfter: time.Second},
			want: summary{phase: inProgress, reason: "Retrying", message: "Attempt 1 failed", attempt: 1, attempts: []string{"ActionFailed"}, next: time.Second},
		}},
		"before its turn": {outcome: refused, message: "Retry refused: it waits for its turn and has not failed", stateCase: stateCase{
			run:  build(wants(waits), retry),
			want: summary{phase: pendingPhase, reason: "Pending", message: "Waiting for its turn"},
		}},
		"a failed Pre action": {
			outcome: refused, message: "Retry refused: the outcome of Backup nightly is recorded and does not change; create a new Backup", failures: 1,
			stateCase: stateCase{
				run:  build(calledAt(0), answeredAt(0, broken), retry),
				want: summary{phase: failedPhase, reason: "ActionFailed", message: "it is Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
			},
		},
		"a completed action": {outcome: refused, message: "Retry refused: it is Completed; only failed actions can be retried", stateCase: stateCase{
			run:  build(postAction, calledAt(0), answeredAt(0, done), retry),
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 1, attempts: []string{""}},
		}},
		"an action that is being canceled": {outcome: refused, message: "Retry refused: it was canceled", failures: 1, stateCase: stateCase{
			run: build(retries(1), wants(cancel), calledAt(0), answeredAt(0, broken), retry),
			want: summary{
				phase: cancelled, reason: "Cancelled", message: "Canceled before it finished", ended: true, attempt: 1, attempts: []string{"ActionFailed"},
			},
		}},
		"an action that failed while it was being canceled": {outcome: refused, message: "Retry refused: it was canceled", failures: 1, stateCase: stateCase{
			run:  build(postAction, wants(cancel), calledAt(0), answeredAt(0, broken), retry),
			want: summary{phase: failedPhase, reason: "ActionFailed", message: "it is Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		}},
	} {
		t.Run(name, tc.test)
	}
}

func TestDecide_Skip(t *testing.T) {
	t.Parallel()
	const accepted, refused = v1alpha1.HookInterventionAccepted, v1alpha1.HookInterventionRefused
	byUser := func(attempt int32, attempts ...string) summary {
		return summary{phase: skipped, reason: "SkippedByUser", message: skippedBy, ended: true, attempt: attempt, attempts: attempts}
	}
	for name, tc := range map[string]interventionCase{
		"before its turn": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(wants(waits), skip), want: byUser(0),
		}},
		"during the back-off after a failure": {outcome: accepted, message: skippedBy, failures: 1, stateCase: stateCase{
			run: build(retries(1), calledAt(0), answeredAt(0, broken), skip), want: byUser(1, "ActionFailed"),
		}},
		"owed clean-up that keeps failing": {outcome: accepted, message: skippedBy, failures: 1, stateCase: stateCase{
			run: build(owed, calledAt(0), answeredAt(0, broken), skip), want: byUser(1, "ActionFailed"),
		}},
		"an action that asked to be called again later": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), answeredAt(0, notDone), skip), want: byUser(1, "Cancelled"),
		}},
		"while the call runs": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip), known: true, step: decision{command: cancelCall},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		}},
		"the call was canceled": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip, runningAt(0)), known: true, ended: &cut, want: byUser(1, "Cancelled"),
		}},
		"running owed clean-up was canceled": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(owed, calledAt(0), skip, runningAt(0)), known: true, ended: &cut, want: byUser(1, "Cancelled"),
		}},
		"the call failed meanwhile": {outcome: accepted, message: skippedBy, failures: 1, stateCase: stateCase{
			run: build(retries(1), calledAt(0), skip), known: true, ended: &broken, want: byUser(1, "ActionFailed"),
		}},
		"the call succeeded meanwhile": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip, runningAt(0)), known: true, ended: &done, at: time.Second,
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 1, attempts: []string{""}},
		}},
		"the operator was killed before the call ended": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip, runningAt(0)), want: byUser(1, "Cancelled"),
		}},
		"the action continues without the operator": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip), resumes: true, step: decision{command: stopLeftovers},
			want: summary{phase: inProgress, reason: "Running", message: "Running attempt 1", attempt: 1, attempts: []string{"open"}},
		}},
		"a retry that was requested during the skip is handled later": {outcome: accepted, message: skippedBy, stateCase: stateCase{
			run: build(calledAt(0), skip, runningAt(0), requests("2", v1alpha1.HookInterventionRetry)), want: byUser(1, "Cancelled"),
		}},
		"a completed action": {outcome: refused, message: "Skip refused: it is Completed already", stateCase: stateCase{
			run:  build(calledAt(0), answeredAt(0, done), skip),
			want: summary{phase: completed, reason: "Completed", message: "frozen", ended: true, attempt: 1, attempts: []string{""}},
		}},
		"a failed action": {outcome: refused, message: "Skip refused: it is Failed already", failures: 1, stateCase: stateCase{
			run:  build(postAction, calledAt(0), answeredAt(0, broken), skip),
			want: summary{phase: failedPhase, reason: "ActionFailed", message: "it is Failed", ended: true, attempt: 1, attempts: []string{"ActionFailed"}},
		}},
		"owed clean-up that ended without success": {outcome: accepted, message: skippedBy, failures: 1, stateCase: stateCase{
			run: build(owed, wants(cancel), givenUp, calledAt(0), answeredAt(0, broken), reconciledAt(0), skip), want: byUser(1, "ActionFailed"),
		}},
	} {
		t.Run(name, tc.test)
	}
}

// TestDecide_InterventionWithOldStatus checks that failures which only the list of attempts has are counted
// after a request that is refused, and not after a retry.
func TestDecide_InterventionWithOldStatus(t *testing.T) {
	t.Parallel()
	end := metav1.NewTime(start)
	for what, want := range map[v1alpha1.HookInterventionType]int32{v1alpha1.HookInterventionRetry: 0, v1alpha1.HookInterventionSkip: 2} {
		run := build(retries(1), postAction, requests("1", what))
		run.Status.Phase, run.Status.Attempt, run.Status.StartTimestamp, run.Status.CompletionTimestamp = failedPhase, 2, &end, &end
		run.Status.Attempts = slices.Repeat([]v1alpha1.HookAttempt{{CompletionTimestamp: new(v1alpha1.NewMicroTime(start)), Reason: v1alpha1.ReasonActionFailed}}, 2)
		reconciledAt(0)(run)
		if got := numFailedAttempts(run); got != want {
			t.Errorf("%d failures after the request to %s, want %d", got, what, want)
		}
	}
}
