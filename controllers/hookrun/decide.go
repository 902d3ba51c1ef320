// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// callOutcome is what a call of an action came to.
type callOutcome = runner.Outcome[callResult]

// callResult is what an action answered and how long its call took.
type callResult struct {
	executor.Answer
	duration time.Duration
	// executor is what ran the action, if that goes on without the operator; nil if not.
	executor executor.Resumable
	// notAttempted says that what an operator before this one began was not followed: something
	// could not be read first.
	notAttempted bool
	// superseded says that the action was not called, because another operator moved the run on.
	superseded bool
	// leftoversStopped says that nothing is left of what was begun.
	leftoversStopped bool
}

// observed is what is known of the current attempt besides its status.
type observed struct {
	// inFlight says that a call runs, or has ended, in this process; ended is its answer if it has.
	inFlight bool
	result   *callOutcome
	// resumable says that what another operator began goes on without it, and can be followed;
	// withdrawn, that it can be ended only, because its Plugin does not provide it any more.
	resumable, actionRemoved bool
	// nextCall is when to call next, by the clock of this process, which cannot be set; zero if there
	// is nothing to wait for.
	nextCall time.Time
	// mayLeaveResources says that what ran for the action may be there when the run has ended.
	mayLeaveResources bool
}

// decision is what is left to do after the status was written.
type decision struct {
	// startCall starts a call of the current attempt; follows says that another operator did before.
	startCall, resumeCall bool
	// stopLeftovers ends what another operator left running of the current attempt.
	stopLeftovers bool
	// cancelCall stops the call that runs.
	cancelCall bool
	// requeueAfter asks for another pass at a time.
	requeueAfter time.Duration
}

// maxRecordedAttempts is how many attempts the status remembers.
const maxRecordedAttempts = 10

// The pauses between attempts of owed clean-up and of retries.
const (
	minRetryBackoff = time.Second
	maxRetryBackoff = 5 * time.Minute
)

// decide moves the status of a HookRun on.
func decide(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	if run.Status.CompletionTimestamp != nil {
		return decision{}
	}
	next := decideUnfinished(run, seen, now)
	run.Status.Removing = run.Status.CompletionTimestamp != nil && run.Status.Attempt > 0 && seen.mayLeaveResources
	return next
}

// decideUnfinished is decide for a run that has not ended.
func decideUnfinished(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	switch {
	case seen.inFlight && seen.result != nil:
		return recordCallOutcome(run, seen, now)
	case shouldCancel(run):
		return cancelAttempt(run, seen, now)
	case seen.inFlight:
		return decision{}
	case run.Spec.DesiredState == v1alpha1.HookDesiredStateWait:
		markPending(run)
		return decision{}
	}
	correctDeadline(run, now)
	if wait := timeUntilNextCall(run, seen, now); wait > 0 {
		return decision{requeueAfter: wait}
	}
	if hasUnansweredCall(run) {
		return resumeAttempt(run, seen, now)
	}
	if open := openAttempt(run); open != nil {
		run.Status.NextCallTimestamp = nil // it asked to be called again, in the same attempt
		if !now.Before(open.Deadline.Time) {
			return failTimedOut(run, now)
		}
		return decision{startCall: true}
	}
	return beginAttempt(run, now)
}

// shouldCancel says whether the run is to be stopped. Owed clean-up that began is not,
// unless a person gave it up.
func shouldCancel(run *v1alpha1.HookRun) bool {
	abandoned := run.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true"
	if run.Spec.Owed && run.Status.StartTimestamp != nil && !abandoned {
		return false
	}
	return run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel
}

// cancelAttempt ends what is left of a run that is to be stopped.
func cancelAttempt(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	switch {
	case seen.inFlight:
		return decision{cancelCall: true}
	case seen.resumable && hasUnansweredCall(run):
		return decision{stopLeftovers: true}
	default:
		return finishWithoutCall(run, now)
	}
}

func markPending(run *v1alpha1.HookRun) {
	run.Status.Phase = v1alpha1.HookRunPhasePending
	run.Status.Message = "Waiting for its turn"
	setInProgressConditions(run, v1alpha1.ReasonPending, run.Status.Message)
}

// setInProgressConditions sets the conditions of a run that has not ended.
func setInProgressConditions(run *v1alpha1.HookRun, reason, message string) {
	conditions.Set(run, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	conditions.SetSummary(run, conditions.InProgress, reason, message)
}

func openAttempt(run *v1alpha1.HookRun) *v1alpha1.HookAttempt {
	n := len(run.Status.Attempts)
	if n == 0 || run.Status.Attempts[n-1].CompletionTimestamp != nil {
		return nil
	}
	return &run.Status.Attempts[n-1]
}

// hasUnansweredCall says that an operator called the action, and recorded no answer.
func hasUnansweredCall(run *v1alpha1.HookRun) bool {
	return openAttempt(run) != nil && run.Status.NextCallTimestamp == nil
}

// resumeAttempt takes an attempt over from an operator that is gone.
func resumeAttempt(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	switch {
	case !seen.resumable:
		return handleInterruption(run, now)
	case now.Before(openAttempt(run).Deadline.Time) && !seen.actionRemoved:
		return decision{startCall: true, resumeCall: true}
	default:
		return decision{stopLeftovers: true}
	}
}

// retryResume is for an attempt that was to be taken over, and something could not be read that
// has nothing to do with it: it goes on, and it is tried again until its deadline.
func retryResume(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	if shouldCancel(run) {
		return cancelAttempt(run, observed{resumable: seen.resumable}, now)
	}
	next := resumeAttempt(run, seen, now)
	if next.resumeCall {
		return decision{requeueAfter: minRetryBackoff}
	}
	return next
}

// timeUntilNextCall returns how long to wait for the next call. A time that is further away than any that
// is ever recorded was recorded by a clock that was set back since, and is not waited for.
func timeUntilNextCall(run *v1alpha1.HookRun, seen observed, now time.Time) time.Duration {
	if run.Status.NextCallTimestamp == nil {
		return 0
	}
	wait := run.Status.NextCallTimestamp.Sub(now)
	if wait > maxCallDelay(run) {
		return 0
	}
	if !seen.nextCall.IsZero() {
		wait = min(wait, seen.nextCall.Sub(now))
	}
	return wait
}

// maxCallDelay returns the longest time between two calls that is ever recorded.
func maxCallDelay(run *v1alpha1.HookRun) time.Duration {
	most := maxRetryBackoff
	if openAttempt(run) != nil {
		most = min(run.Spec.Timeout.Duration, executor.MaxRetryAfter) // it goes on until its deadline
	}
	return most + maxRounding
}

// maxRounding is what roundUpToSecond adds at most.
const maxRounding = time.Second

// correctDeadline shortens the deadline of the open attempt that a clock recorded which was set back
// since. The attempt does not fail for that.
func correctDeadline(run *v1alpha1.HookRun, now time.Time) {
	open := openAttempt(run)
	if open != nil && open.Deadline.Sub(now) > run.Spec.Timeout.Duration+maxRounding {
		open.Deadline = roundUpToSecond(now.Add(run.Spec.Timeout.Duration))
	}
}

// roundUpToSecond returns the first time from at on that the API can hold: it keeps
// whole seconds, and drops what is beyond them. A deadline or a pause that is
// read back must not be shorter than it was meant.
func roundUpToSecond(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
}

// beginAttempt records a new attempt; its call follows the write.
func beginAttempt(run *v1alpha1.HookRun, now time.Time) decision {
	at := metav1.NewTime(now)
	run.Status.Phase = v1alpha1.HookRunPhaseInProgress
	run.Status.NextCallTimestamp = nil
	if run.Status.StartTimestamp == nil {
		run.Status.StartTimestamp = &at
	}
	run.Status.Attempt++
	attempts := append(run.Status.Attempts, v1alpha1.HookAttempt{
		Number: run.Status.Attempt, StartTimestamp: at,
		Deadline: roundUpToSecond(now.Add(run.Spec.Timeout.Duration)),
	})
	run.Status.Attempts = attempts[max(0, len(attempts)-maxRecordedAttempts):]
	run.Status.Message = fmt.Sprintf("Running attempt %d", run.Status.Attempt)
	setInProgressConditions(run, v1alpha1.ReasonRunning, run.Status.Message)
	return decision{startCall: true}
}

// handleInterruption handles an attempt that nobody asked to stop: the operator that
// made it is gone, or going.
func handleInterruption(run *v1alpha1.HookRun, now time.Time) decision {
	const message = "the operator went away while the action ran"
	if !run.Spec.Owed && run.Spec.OnInterruption == v1alpha1.InterruptionPolicyFail {
		return recordFailure(run, v1alpha1.ReasonInterrupted, message, now)
	}
	closeAttempt(run, v1alpha1.ReasonInterrupted, message, now)
	return beginAttempt(run, now)
}

// recordCallOutcome records the answer of a call.
func recordCallOutcome(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	ended := *seen.result
	succeeded := conditions.Get(run, v1alpha1.ConditionSucceeded)
	only := run.Status.Attempt == 1 && succeeded != nil && succeeded.Reason == v1alpha1.ReasonRunning
	next := decideAfterCall(run, ended, seen, now)
	if only && ended.Value.duration > 0 && run.Status.CompletionTimestamp != nil && now.Sub(run.Status.StartTimestamp.Time)-ended.Value.duration < 2*time.Second {
		// The timestamps hold whole seconds; the one call it took is known better, unless an
		// operator before this one began it.
		run.Status.Duration = ended.Value.duration.Round(time.Millisecond).String()
	}
	return next
}

func decideAfterCall(run *v1alpha1.HookRun, ended callOutcome, seen observed, now time.Time) decision {
	interruption := executor.ErrorKindOf(ended.Err) == executor.Interrupted
	switch {
	case ended.Value.notAttempted:
		return retryResume(run, seen, now)
	case ended.Err == nil && ended.Value.RetryAfter > 0:
		return scheduleNextCall(run, ended.Value.Answer, now)
	case ended.Err == nil:
		return recordSuccess(run, ended.Value.Answer, now)
	case interruption && shouldCancel(run):
		closeAttempt(run, v1alpha1.ReasonCancelled, "cancelled", now)
		return finishHookRun(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled while it ran", now)
	case interruption && seen.resumable:
		return decision{} // this operator ends, and what it began does not
	case interruption:
		return handleInterruption(run, now)
	}
	return recordFailure(run, reasonForError(ended.Err), messageForError(ended.Err), now)
}

// scheduleNextCall records that the attempt goes on with another call, at its deadline at
// the latest: that it is over must not be found out only when the action is to
// be called again.
func scheduleNextCall(run *v1alpha1.HookRun, value executor.Answer, now time.Time) decision {
	next := roundUpToSecond(now.Add(value.RetryAfter))
	if open := openAttempt(run); open != nil && open.Deadline.Before(&next) {
		next = open.Deadline
	}
	if !now.Before(next.Time) {
		return failTimedOut(run, now)
	}
	run.Status.NextCallTimestamp = &next
	run.Status.Message = cmp.Or(value.Message, "Not done yet")
	setInProgressConditions(run, v1alpha1.ReasonCalledAgainLater, run.Status.Message)
	return decision{requeueAfter: next.Sub(now)}
}

// failTimedOut ends an attempt that asked to be called again until its time was over.
func failTimedOut(run *v1alpha1.HookRun, now time.Time) decision {
	return recordFailure(run, v1alpha1.ReasonTimedOut, "was not done in time", now)
}

func reasonForError(err error) string {
	switch executor.ErrorKindOf(err) {
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

// messageForError returns what a person is told; the HookRun says of which action.
func messageForError(err error) string {
	var failed *executor.Error
	if !errors.As(err, &failed) {
		return "internal error; see the operator's log"
	}
	return failed.Text
}

func recordSuccess(run *v1alpha1.HookRun, value executor.Answer, now time.Time) decision {
	run.Status.Outputs = nil
	for k, v := range value.Outputs {
		if run.Status.Outputs == nil {
			run.Status.Outputs = map[string]v1alpha1.ParameterValue{}
		}
		run.Status.Outputs[k] = v1alpha1.ParameterValue(v)
	}
	closeAttempt(run, "", "", now)
	return finishHookRun(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonCompleted, cmp.Or(value.Message, "Done"), now)
}

// recordFailure records a failed attempt and decides whether there is another one.
func recordFailure(run *v1alpha1.HookRun, reason, text string, now time.Time) decision {
	closeAttempt(run, reason, text, now)
	failed := numFailedAttempts(run)
	if run.Spec.Owed || (failed <= run.Spec.Retries && reason != v1alpha1.ReasonInvalid && reason != v1alpha1.ReasonInterrupted) {
		pause := min(minRetryBackoff<<min(max(failed-1, 0), 16), maxRetryBackoff)
		next := roundUpToSecond(now.Add(pause))
		run.Status.NextCallTimestamp = &next
		run.Status.Message = executor.OneLine(fmt.Sprintf("Attempt %d failed and is repeated: %s", run.Status.Attempt, text))
		setInProgressConditions(run, v1alpha1.ReasonRetrying, run.Status.Message)
		return decision{requeueAfter: next.Sub(now)}
	}
	ignorable := reason == v1alpha1.ReasonUnreachable || reason == v1alpha1.ReasonTimedOut
	if ignorable && run.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore {
		return finishHookRun(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonIgnored, executor.OneLine("ignored: "+text), now)
	}
	return finishHookRun(run, v1alpha1.HookRunPhaseFailed, reason, text, now)
}

// numFailedAttempts is how many attempts failed. Those that the operator's end
// interrupted are not among them: they must not use up the retries. The attempts are
// counted, too, because an operator of an earlier version did not write the number down.
func numFailedAttempts(run *v1alpha1.HookRun) int32 {
	listed := int32(0)
	for _, attempt := range run.Status.Attempts {
		if isFailureReason(attempt.Reason) {
			listed++
		}
	}
	return max(run.Status.Failures, listed)
}

// isFailureReason says whether an attempt that ended with a reason failed.
func isFailureReason(reason string) bool {
	return reason != "" && reason != v1alpha1.ReasonInterrupted && reason != v1alpha1.ReasonCancelled
}

func closeAttempt(run *v1alpha1.HookRun, reason, text string, now time.Time) {
	open := openAttempt(run)
	if open == nil {
		return
	}
	if isFailureReason(reason) {
		run.Status.Failures = numFailedAttempts(run) + 1
	}
	at := metav1.NewTime(now)
	open.CompletionTimestamp, open.Reason, open.Message = &at, reason, text
}

// finishWithoutCall ends a run that is stopped while no call runs.
func finishWithoutCall(run *v1alpha1.HookRun, now time.Time) decision {
	if run.Status.StartTimestamp == nil {
		return finishHookRun(run, v1alpha1.HookRunPhaseSkipped, v1alpha1.ReasonNotNeeded, "It did not have to run", now)
	}
	closeAttempt(run, v1alpha1.ReasonCancelled, "cancelled", now)
	return finishHookRun(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled before it was done", now)
}

// finishHookRun makes a run terminal.
func finishHookRun(run *v1alpha1.HookRun, phase v1alpha1.HookRunPhase, reason, text string, now time.Time) decision {
	at := metav1.NewTime(now)
	run.Status.Phase, run.Status.Message, run.Status.CompletionTimestamp = phase, text, &at
	run.Status.NextCallTimestamp = nil
	if start := run.Status.StartTimestamp; start != nil {
		run.Status.Duration = now.Sub(start.Time).Round(time.Second).String()
	}
	status, state := metav1.ConditionTrue, conditions.Current
	if phase == v1alpha1.HookRunPhaseFailed || phase == v1alpha1.HookRunPhaseCancelled {
		status, state = metav1.ConditionFalse, conditions.Stalled
	}
	conditions.Set(run, v1alpha1.ConditionSucceeded, status, reason, text)
	conditions.SetSummary(run, state, reason, text)
	return decision{}
}
