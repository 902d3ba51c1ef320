// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// answer is what a call of an action came to.
type answer = runner.Outcome[executor.Answer]

// step is what is left to do after the status was written.
type step struct {
	// call starts a call of the current attempt.
	call bool
	// cancel stops the call that runs.
	cancel bool
	// after asks for another pass at a time.
	after time.Duration
}

// maxAttempts is how many attempts the status remembers.
const maxAttempts = 10

// The pauses between attempts of owed clean-up and of retries.
const (
	firstPause = time.Second
	maxPause   = 5 * time.Minute
)

// decide moves the status of a HookRun on. Known says whether a call runs or has
// ended in this process, and ended is its answer if it has.
func decide(run *v1alpha1.HookRun, known bool, ended *answer, now time.Time) step {
	switch {
	case run.Status.CompletionTimestamp != nil:
		return step{}
	case known && ended != nil:
		return settle(run, *ended, now)
	case stop(run):
		if known {
			return step{cancel: true}
		}
		return finishUnstarted(run, now)
	case known:
		return step{}
	case run.Spec.DesiredState == v1alpha1.HookDesiredStateWait:
		pending(run)
		return step{}
	}
	if wait := untilNext(run, now); wait > 0 {
		return step{after: wait}
	}
	if open := openAttempt(run); open != nil && run.Status.NextCallTimestamp == nil {
		return interrupted(run, open, now)
	} else if open != nil {
		run.Status.NextCallTimestamp = nil // it asked to be called again, in the same attempt
		if !now.Before(open.Deadline.Time) {
			return fail(run, v1alpha1.ReasonTimedOut, "was not done in time", now)
		}
		return step{call: true}
	}
	return begin(run, now)
}

// stop says whether the run is to be stopped. Owed clean-up that began is not.
func stop(run *v1alpha1.HookRun) bool {
	if run.Spec.Owed && run.Status.StartTimestamp != nil {
		return false
	}
	return run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel
}

func pending(run *v1alpha1.HookRun) {
	run.Status.Phase = v1alpha1.HookRunPhasePending
	run.Status.Message = "Waiting for its turn"
	running(run, v1alpha1.ReasonPending, run.Status.Message)
}

// running sets the conditions of a run that has not ended.
func running(run *v1alpha1.HookRun, reason, message string) {
	conditions.Set(run, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	conditions.Summary(run, conditions.InProgress, reason, message)
}

func openAttempt(run *v1alpha1.HookRun) *v1alpha1.HookAttempt {
	n := len(run.Status.Attempts)
	if n == 0 || run.Status.Attempts[n-1].CompletionTimestamp != nil {
		return nil
	}
	return &run.Status.Attempts[n-1]
}

func untilNext(run *v1alpha1.HookRun, now time.Time) time.Duration {
	if run.Status.NextCallTimestamp == nil {
		return 0
	}
	return run.Status.NextCallTimestamp.Sub(now)
}

// begin records a new attempt; its call follows the write.
func begin(run *v1alpha1.HookRun, now time.Time) step {
	at := metav1.NewTime(now)
	run.Status.Phase = v1alpha1.HookRunPhaseInProgress
	run.Status.NextCallTimestamp = nil
	if run.Status.StartTimestamp == nil {
		run.Status.StartTimestamp = &at
	}
	run.Status.Attempt++
	attempts := append(run.Status.Attempts, v1alpha1.HookAttempt{
		Number: run.Status.Attempt, StartTimestamp: at,
		Deadline: metav1.NewTime(now.Add(run.Spec.Timeout.Duration)),
	})
	run.Status.Attempts = attempts[max(0, len(attempts)-maxAttempts):]
	run.Status.Message = fmt.Sprintf("Running attempt %d", run.Status.Attempt)
	running(run, v1alpha1.ReasonRunning, run.Status.Message)
	return step{call: true}
}

// interrupted handles an attempt that nobody in this process knows: the operator
// that made it is gone.
func interrupted(run *v1alpha1.HookRun, open *v1alpha1.HookAttempt, now time.Time) step {
	const message = "the operator went away while the action ran"
	if !run.Spec.Owed && run.Spec.OnInterruption == v1alpha1.InterruptionPolicyFail {
		return fail(run, v1alpha1.ReasonInterrupted, message, now)
	}
	at := metav1.NewTime(now)
	open.CompletionTimestamp, open.Reason, open.Message = &at, v1alpha1.ReasonInterrupted, message
	return begin(run, now)
}

// settle records the answer of a call.
func settle(run *v1alpha1.HookRun, ended answer, now time.Time) step {
	if ended.Err == nil && ended.Value.Again > 0 {
		next := metav1.NewTime(now.Add(ended.Value.Again))
		run.Status.NextCallTimestamp = &next
		run.Status.Message = orElse(ended.Value.Message, "Not done yet")
		running(run, v1alpha1.ReasonCalledAgainLater, run.Status.Message)
		return step{after: ended.Value.Again}
	}
	if ended.Err == nil {
		return succeed(run, ended.Value, now)
	}
	if executor.KindOf(ended.Err) == executor.Interrupted && stop(run) {
		return end(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled while it ran", now)
	}
	return fail(run, reasonOf(ended.Err), message(ended.Err), now)
}

func reasonOf(err error) string {
	switch executor.KindOf(err) {
	case executor.Unreachable:
		return v1alpha1.ReasonUnreachable
	case executor.Timeout:
		return v1alpha1.ReasonTimedOut
	case executor.Invalid:
		return v1alpha1.ReasonInvalid
	case executor.Interrupted:
		return v1alpha1.ReasonInterrupted
	default:
		return v1alpha1.ReasonActionFailed
	}
}

func message(err error) string {
	if executor.KindOf(err) == "" {
		return "internal error; see the operator's log"
	}
	return executor.OneLine(err.Error())
}

func succeed(run *v1alpha1.HookRun, value executor.Answer, now time.Time) step {
	run.Status.Outputs = nil
	for k, v := range value.Outputs {
		if run.Status.Outputs == nil {
			run.Status.Outputs = map[string]v1alpha1.ParameterValue{}
		}
		run.Status.Outputs[k] = v1alpha1.ParameterValue(v)
	}
	closeAttempt(run, "", "", now)
	return end(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonCompleted, orElse(value.Message, "Done"), now)
}

// fail records a failed attempt and decides whether there is another one.
func fail(run *v1alpha1.HookRun, reason, text string, now time.Time) step {
	closeAttempt(run, reason, text, now)
	if run.Spec.Owed || (run.Status.Attempt <= run.Spec.Retries && reason != v1alpha1.ReasonInvalid && reason != v1alpha1.ReasonInterrupted) {
		pause := min(firstPause<<min(run.Status.Attempt-1, 16), maxPause)
		next := metav1.NewTime(now.Add(pause))
		run.Status.NextCallTimestamp = &next
		run.Status.Message = executor.OneLine(fmt.Sprintf("Attempt %d failed and is repeated: %s", run.Status.Attempt, text))
		running(run, v1alpha1.ReasonRetrying, run.Status.Message)
		return step{after: pause}
	}
	ignorable := reason == v1alpha1.ReasonUnreachable || reason == v1alpha1.ReasonTimedOut
	if ignorable && run.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore {
		return end(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonIgnored, executor.OneLine("ignored: "+text), now)
	}
	return end(run, v1alpha1.HookRunPhaseFailed, reason, text, now)
}

func closeAttempt(run *v1alpha1.HookRun, reason, text string, now time.Time) {
	if open := openAttempt(run); open != nil {
		at := metav1.NewTime(now)
		open.CompletionTimestamp, open.Reason, open.Message = &at, reason, text
	}
}

// finishUnstarted ends a run that is stopped while no call runs.
func finishUnstarted(run *v1alpha1.HookRun, now time.Time) step {
	if run.Status.StartTimestamp == nil {
		return end(run, v1alpha1.HookRunPhaseSkipped, v1alpha1.ReasonNotNeeded, "It did not have to run", now)
	}
	closeAttempt(run, v1alpha1.ReasonCancelled, "cancelled", now)
	return end(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled before it was done", now)
}

// end makes a run terminal.
func end(run *v1alpha1.HookRun, phase v1alpha1.HookRunPhase, reason, text string, now time.Time) step {
	at := metav1.NewTime(now)
	run.Status.Phase, run.Status.Message, run.Status.CompletionTimestamp = phase, text, &at
	run.Status.NextCallTimestamp = nil
	if start := run.Status.StartTimestamp; start != nil {
		run.Status.Duration = now.Sub(start.Time).Round(time.Millisecond).String()
	}
	status, state := metav1.ConditionTrue, conditions.Current
	if phase == v1alpha1.HookRunPhaseFailed || phase == v1alpha1.HookRunPhaseCancelled {
		status, state = metav1.ConditionFalse, conditions.Stalled
	}
	conditions.Set(run, v1alpha1.ConditionSucceeded, status, reason, text)
	conditions.Summary(run, state, reason, text)
	return step{}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
