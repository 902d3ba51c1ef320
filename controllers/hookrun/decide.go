// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/intervention"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// callOutcome is the outcome of a call of an action.
type callOutcome = runner.Outcome[callResult]

// callResult is the answer of an action and the duration of its call.
type callResult struct {
	executor.Answer
	duration time.Duration
	// executor ran the action; nil if the action does not continue without the operator.
	executor executor.Resumable
	// notAttempted means that the call of a previous operator was not resumed, because reading
	// its input failed.
	notAttempted bool
	// superseded means that the action was not called, because another operator advanced the
	// HookRun.
	superseded bool
	// leftoversStopped means that nothing remains of what the action started.
	leftoversStopped bool
}

// observed is what is known of the current attempt besides its status.
type observed struct {
	// inFlight means that a call runs, or has ended, in this process. result is its outcome, nil
	// while it runs.
	inFlight bool
	result   *callOutcome
	// resumable means that a call of another operator continues without it and can be resumed.
	// actionRemoved means that the call can only be stopped, because its Plugin no longer provides
	// the action.
	resumable, actionRemoved bool
	// nextCall is when the next call is due by the monotonic clock of this process; zero if none
	// is due.
	nextCall time.Time
	// mayLeaveResources means that resources of the action may still exist when the HookRun
	// finishes.
	mayLeaveResources bool
	// redact removes known secrets from the reason of an intervention.
	redact func(string) string
}

// decision is what to do after the status was written.
type decision struct {
	command command
	// requeueAfter is when to reconcile again.
	requeueAfter time.Duration
}

// command is what to do with the call of the current attempt.
type command int

const (
	// keepCall leaves the call as it is, if there is one.
	keepCall command = iota
	// startCall starts a call.
	startCall
	// resumeCall continues a call that another operator started.
	resumeCall
	// cancelCall cancels the running call.
	cancelCall
	// stopLeftovers stops what another operator left running.
	stopLeftovers
)

// needsTask reports whether the command runs in the background.
func (c command) needsTask() bool { return c == startCall || c == resumeCall || c == stopLeftovers }

// maxRecordedAttempts is how many attempts the status lists.
const maxRecordedAttempts = 10

// The back-off between attempts, of owed clean-up and of retries.
const (
	minRetryBackoff = time.Second
	maxRetryBackoff = 5 * time.Minute
)

// decide advances the status of a HookRun.
func decide(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	finished := run.Status.CompletionTimestamp != nil
	next, decided := decideIntervention(run, seen, now)
	if finished {
		return next
	}
	if !decided {
		next = decideUnfinished(run, seen, now)
	}
	run.Status.Removing = run.Status.CompletionTimestamp != nil && run.Status.Attempt > 0 && seen.mayLeaveResources
	return next
}

// decideUnfinished is decide for an unfinished HookRun.
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
		run.Status.NextCallTimestamp = nil // the action asked to be called again, in the same attempt
		if !now.Before(open.Deadline.Time) {
			return failTimedOut(run, now)
		}
		return decision{command: startCall}
	}
	return beginAttempt(run, now)
}

// shouldCancel reports whether to cancel the HookRun. Owed clean-up that has started is not
// canceled, unless a user abandoned or skipped it.
func shouldCancel(run *v1alpha1.HookRun) bool {
	if intervention.IsSkipping(run) {
		return true
	}
	abandoned := run.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true"
	if run.Spec.Owed && run.Status.StartTimestamp != nil && !abandoned {
		return false
	}
	return run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel
}

// cancelAttempt cancels the current attempt, or finishes the HookRun if no call is open.
func cancelAttempt(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	switch {
	case seen.inFlight:
		return decision{command: cancelCall}
	case seen.resumable && hasUnansweredCall(run):
		return decision{command: stopLeftovers}
	default:
		return finishWithoutCall(run, now)
	}
}

func markPending(run *v1alpha1.HookRun) {
	run.Status.Phase = v1alpha1.HookRunPhasePending
	run.Status.Message = "Waiting for its turn"
	setInProgressConditions(run, v1alpha1.ReasonPending, run.Status.Message)
}

// setInProgressConditions sets the conditions of an unfinished HookRun.
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

// hasUnansweredCall reports whether an operator called the action and recorded no answer.
func hasUnansweredCall(run *v1alpha1.HookRun) bool {
	return openAttempt(run) != nil && run.Status.NextCallTimestamp == nil
}

// resumeAttempt takes an attempt over from a previous operator.
func resumeAttempt(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	switch {
	case !seen.resumable:
		return handleInterruption(run, now)
	case now.Before(openAttempt(run).Deadline.Time) && !seen.actionRemoved:
		return decision{command: resumeCall}
	default:
		return decision{command: stopLeftovers}
	}
}

// retryResume handles an attempt that could not be resumed because of an unrelated read error.
// The attempt is still running, so resuming it is retried until its deadline.
func retryResume(run *v1alpha1.HookRun, seen observed, now time.Time) decision {
	if shouldCancel(run) {
		return cancelAttempt(run, observed{resumable: seen.resumable}, now)
	}
	next := resumeAttempt(run, seen, now)
	if next.command == resumeCall {
		return decision{requeueAfter: minRetryBackoff}
	}
	return next
}

// timeUntilNextCall returns how long to wait for the next call. A time beyond maxCallDelay was
// recorded by a clock that has been set back since, and is ignored.
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
		most = min(run.Spec.Timeout.Duration, executor.MaxRetryAfter) // the attempt ends at its deadline
	}
	return most + maxRounding
}

// maxRounding is the most that roundUpToSecond adds.
const maxRounding = time.Second

// correctDeadline shortens the deadline of the open attempt if the clock has been set back since it
// was recorded. The attempt does not fail because of that.
func correctDeadline(run *v1alpha1.HookRun, now time.Time) {
	open := openAttempt(run)
	if open != nil && open.Deadline.Sub(now) > run.Spec.Timeout.Duration+maxRounding {
		open.Deadline = roundUpToSecond(now.Add(run.Spec.Timeout.Duration))
	}
}

// roundUpToSecond rounds a time up to a whole second. The API truncates to seconds, which would
// shorten deadlines and back-off.
func roundUpToSecond(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
}

// beginAttempt records a new attempt. The action is called after the write.
func beginAttempt(run *v1alpha1.HookRun, now time.Time) decision {
	at := metav1.NewTime(now)
	run.Status.Phase = v1alpha1.HookRunPhaseInProgress
	run.Status.NextCallTimestamp = nil
	if run.Status.StartTimestamp == nil {
		run.Status.StartTimestamp = &at
	}
	run.Status.Attempt++
	attempts := append(run.Status.Attempts, v1alpha1.HookAttempt{
		Number: run.Status.Attempt, StartTimestamp: v1alpha1.NewMicroTime(now),
		Deadline: roundUpToSecond(now.Add(run.Spec.Timeout.Duration)),
	})
	run.Status.Attempts = attempts[max(0, len(attempts)-maxRecordedAttempts):]
	run.Status.Message = fmt.Sprintf("Running attempt %d", run.Status.Attempt)
	setInProgressConditions(run, v1alpha1.ReasonRunning, run.Status.Message)
	return decision{command: startCall}
}

// handleInterruption handles an attempt that ended because its operator stopped or is stopping,
// without a request to cancel.
func handleInterruption(run *v1alpha1.HookRun, now time.Time) decision {
	const message = "the operator stopped while the action was running"
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
		// The timestamps hold whole seconds. The duration of a single call is more precise, unless
		// a previous operator started it.
		run.Status.Duration = ended.Value.duration.Round(time.Millisecond).String()
	}
	return next
}

func decideAfterCall(run *v1alpha1.HookRun, ended callOutcome, seen observed, now time.Time) decision {
	interruption := executor.ErrorKindOf(ended.Err) == executor.Interrupted
	if failed, ok := errors.AsType[*executor.Error](ended.Err); ok && failed.Progress != nil {
		recordOutputs(run, failed.Progress)
	}
	switch {
	case ended.Value.notAttempted:
		return retryResume(run, seen, now)
	case ended.Err == nil && ended.Value.RetryAfter > 0:
		return scheduleNextCall(run, ended.Value.Answer, now)
	case ended.Err == nil:
		return recordSuccess(run, ended.Value.Answer, now)
	case interruption && intervention.IsSkipping(run):
		return finishSkipped(run, now)
	case interruption && shouldCancel(run):
		closeAttempt(run, v1alpha1.ReasonCancelled, "canceled", now)
		return finishHookRun(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Canceled while running", now)
	case interruption && seen.resumable:
		return decision{} // this operator stops, and its call continues
	case interruption:
		return handleInterruption(run, now)
	}
	return recordFailure(run, reasonForError(ended.Err), messageForError(ended.Err), now)
}

// scheduleNextCall records that the attempt continues with another call, no later than its
// deadline. Otherwise the expired deadline would be noticed only when the next call is due.
func scheduleNextCall(run *v1alpha1.HookRun, value executor.Answer, now time.Time) decision {
	next := roundUpToSecond(now.Add(value.RetryAfter))
	if open := openAttempt(run); open != nil && open.Deadline.Before(&next) {
		next = open.Deadline
	}
	if !now.Before(next.Time) {
		return failTimedOut(run, now)
	}
	if value.Progress != nil {
		recordOutputs(run, value.Progress)
	}
	run.Status.NextCallTimestamp = &next
	run.Status.Message = cmp.Or(value.Message, "Not done yet")
	setInProgressConditions(run, v1alpha1.ReasonCalledAgainLater, run.Status.Message)
	return decision{requeueAfter: next.Sub(now)}
}

// failTimedOut fails an attempt whose action asked to be called again until its deadline expired.
func failTimedOut(run *v1alpha1.HookRun, now time.Time) decision {
	return recordFailure(run, v1alpha1.ReasonTimedOut, "did not finish before its deadline", now)
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

// messageForError returns the message for users, without the name of the action.
func messageForError(err error) string {
	if failed, ok := errors.AsType[*executor.Error](err); ok {
		return failed.Text
	}
	return "internal error; see the operator's log"
}

func recordSuccess(run *v1alpha1.HookRun, value executor.Answer, now time.Time) decision {
	recordOutputs(run, value.Outputs)
	closeAttempt(run, "", "", now)
	reason := v1alpha1.ReasonCompleted
	if value.Ignored {
		reason = v1alpha1.ReasonIgnored
	}
	return finishHookRun(run, v1alpha1.HookRunPhaseCompleted, reason, cmp.Or(value.Message, "Done"), now)
}

// recordOutputs replaces the outputs of a HookRun.
func recordOutputs(run *v1alpha1.HookRun, outputs map[string]string) {
	run.Status.Outputs = nil
	for k, v := range outputs {
		if run.Status.Outputs == nil {
			run.Status.Outputs = map[string]v1alpha1.ParameterValue{}
		}
		run.Status.Outputs[k] = v1alpha1.ParameterValue(v)
	}
}

// recordFailure records a failed attempt and decides whether to retry.
func recordFailure(run *v1alpha1.HookRun, reason, text string, now time.Time) decision {
	closeAttempt(run, reason, text, now)
	if intervention.IsSkipping(run) {
		return finishSkipped(run, now)
	}
	failed := numFailedAttempts(run)
	if run.Spec.Owed || (failed <= run.Spec.Retries && reason != v1alpha1.ReasonInvalid && reason != v1alpha1.ReasonInterrupted) {
		pause := backoff.Delay(wait.Backoff{Duration: minRetryBackoff, Factor: 2, Cap: maxRetryBackoff}, int(max(failed, 1)))
		next := roundUpToSecond(now.Add(pause))
		run.Status.NextCallTimestamp = &next
		run.Status.Message = executor.OneLine(fmt.Sprintf("Attempt %d failed and will be retried: %s", run.Status.Attempt, text))
		setInProgressConditions(run, v1alpha1.ReasonRetrying, run.Status.Message)
		return decision{requeueAfter: next.Sub(now)}
	}
	ignorable := reason == v1alpha1.ReasonUnreachable || reason == v1alpha1.ReasonTimedOut
	if ignorable && run.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore {
		return finishHookRun(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonIgnored, executor.OneLine("ignored: "+text), now)
	}
	return finishHookRun(run, v1alpha1.HookRunPhaseFailed, reason, text, now)
}

// numFailedAttempts returns how many attempts failed. Attempts that were interrupted when the
// operator stopped do not count, because they must not use up retries. The listed attempts are
// counted as well, because earlier versions of the operator did not record the number, unless an
// intervention was handled: that records the number, and a retry resets it.
func numFailedAttempts(run *v1alpha1.HookRun) int32 {
	if run.Status.LastIntervention != nil {
		return run.Status.Failures
	}
	listed := int32(0)
	for _, attempt := range run.Status.Attempts {
		if isFailureReason(attempt.Reason) {
			listed++
		}
	}
	return max(run.Status.Failures, listed)
}

// isFailureReason reports whether an attempt that ended with this reason failed.
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
	at := v1alpha1.NewMicroTime(now)
	open.CompletionTimestamp, open.Reason, open.Message = &at, reason, text
}

// finishWithoutCall finishes a HookRun that is canceled while no call runs.
func finishWithoutCall(run *v1alpha1.HookRun, now time.Time) decision {
	if intervention.IsSkipping(run) {
		return finishSkipped(run, now)
	}
	if run.Status.StartTimestamp == nil {
		return finishHookRun(run, v1alpha1.HookRunPhaseSkipped, v1alpha1.ReasonNotNeeded, "Not needed", now)
	}
	closeAttempt(run, v1alpha1.ReasonCancelled, "canceled", now)
	return finishHookRun(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Canceled before it finished", now)
}

// finishHookRun records the outcome of a HookRun.
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
