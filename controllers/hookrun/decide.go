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

// answer is what a call of an action came to.
type answer = runner.Outcome[called]

// called is what an action answered and how long its call took.
type called struct {
	executor.Answer
	took time.Duration
	// by is what ran the action, if that goes on without the operator; nil if not.
	by executor.Resumer
	// unasked says that what an operator before this one began was not followed: something
	// could not be read first.
	unasked bool
	// cleared says that nothing is left of what was begun.
	cleared bool
}

// observed is what is known of the current attempt besides its status.
type observed struct {
	// known says that a call runs, or has ended, in this process; ended is its answer if it has.
	known bool
	ended *answer
	// resumes says that what another operator began goes on without it, and can be followed;
	// withdrawn, that it can be ended only, because its Plugin does not provide it any more.
	resumes, withdrawn bool
	// leaves says that what ran for the action may be there when the run has ended.
	leaves bool
}

// step is what is left to do after the status was written.
type step struct {
	// call starts a call of the current attempt; follows says that another operator did before.
	call, follows bool
	// clear ends what another operator left running of the current attempt.
	clear bool
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

// decide moves the status of a HookRun on.
func decide(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	if run.Status.CompletionTimestamp != nil {
		return step{}
	}
	next := advance(run, seen, now)
	run.Status.Removing = run.Status.CompletionTimestamp != nil && run.Status.Attempt > 0 && seen.leaves
	return next
}

// advance is decide for a run that has not ended.
func advance(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	switch {
	case seen.known && seen.ended != nil:
		return settle(run, seen, now)
	case stop(run):
		return halt(run, seen, now)
	case seen.known:
		return step{}
	case run.Spec.DesiredState == v1alpha1.HookDesiredStateWait:
		pending(run)
		return step{}
	}
	if wait := untilNext(run, now); wait > 0 {
		return step{after: wait}
	}
	if isCalled(run) {
		return goOn(run, seen, now)
	}
	if open := openAttempt(run); open != nil {
		run.Status.NextCallTimestamp = nil // it asked to be called again, in the same attempt
		if !now.Before(open.Deadline.Time) {
			return outOfTime(run, now)
		}
		return step{call: true}
	}
	return begin(run, now)
}

// stop says whether the run is to be stopped. Owed clean-up that began is not,
// unless a person gave it up.
func stop(run *v1alpha1.HookRun) bool {
	abandoned := run.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true"
	if run.Spec.Owed && run.Status.StartTimestamp != nil && !abandoned {
		return false
	}
	return run.Spec.DesiredState == v1alpha1.HookDesiredStateCancel
}

// halt ends what is left of a run that is to be stopped.
func halt(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	switch {
	case seen.known:
		return step{cancel: true}
	case seen.resumes && isCalled(run):
		return step{clear: true}
	default:
		return finishUnstarted(run, now)
	}
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

// isCalled says that an operator called the action, and recorded no answer.
func isCalled(run *v1alpha1.HookRun) bool {
	return openAttempt(run) != nil && run.Status.NextCallTimestamp == nil
}

// goOn takes an attempt over from an operator that is gone.
func goOn(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	switch {
	case !seen.resumes:
		return interrupted(run, now)
	case now.Before(openAttempt(run).Deadline.Time) && !seen.withdrawn:
		return step{call: true, follows: true}
	default:
		return step{clear: true}
	}
}

// goOnLater is for an attempt that was to be taken over, and something could not be read that
// has nothing to do with it: it goes on, and it is tried again until its deadline.
func goOnLater(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	if stop(run) {
		return halt(run, observed{resumes: seen.resumes}, now)
	}
	next := goOn(run, seen, now)
	if next.follows {
		return step{after: firstPause}
	}
	return next
}

func untilNext(run *v1alpha1.HookRun, now time.Time) time.Duration {
	if run.Status.NextCallTimestamp == nil {
		return 0
	}
	return run.Status.NextCallTimestamp.Sub(now)
}

// notBefore returns the first time from at on that the API can hold: it keeps
// whole seconds, and drops what is beyond them. A deadline or a pause that is
// read back must not be shorter than it was meant.
func notBefore(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
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
		Deadline: notBefore(now.Add(run.Spec.Timeout.Duration)),
	})
	run.Status.Attempts = attempts[max(0, len(attempts)-maxAttempts):]
	run.Status.Message = fmt.Sprintf("Running attempt %d", run.Status.Attempt)
	running(run, v1alpha1.ReasonRunning, run.Status.Message)
	return step{call: true}
}

// interrupted handles an attempt that nobody asked to stop: the operator that
// made it is gone, or going.
func interrupted(run *v1alpha1.HookRun, now time.Time) step {
	const message = "the operator went away while the action ran"
	if !run.Spec.Owed && run.Spec.OnInterruption == v1alpha1.InterruptionPolicyFail {
		return fail(run, v1alpha1.ReasonInterrupted, message, now)
	}
	closeAttempt(run, v1alpha1.ReasonInterrupted, message, now)
	return begin(run, now)
}

// settle records the answer of a call.
func settle(run *v1alpha1.HookRun, seen observed, now time.Time) step {
	ended := *seen.ended
	succeeded := conditions.Get(run, v1alpha1.ConditionSucceeded)
	only := run.Status.Attempt == 1 && succeeded != nil && succeeded.Reason == v1alpha1.ReasonRunning
	next := settled(run, ended, seen, now)
	if only && ended.Value.took > 0 && run.Status.CompletionTimestamp != nil && now.Sub(run.Status.StartTimestamp.Time)-ended.Value.took < 2*time.Second {
		// The timestamps hold whole seconds; the one call it took is known better, unless an
		// operator before this one began it.
		run.Status.Duration = ended.Value.took.Round(time.Millisecond).String()
	}
	return next
}

func settled(run *v1alpha1.HookRun, ended answer, seen observed, now time.Time) step {
	interruption := executor.KindOf(ended.Err) == executor.Interrupted
	switch {
	case ended.Value.unasked:
		return goOnLater(run, seen, now)
	case ended.Err == nil && ended.Value.Again > 0:
		return again(run, ended.Value.Answer, now)
	case ended.Err == nil:
		return succeed(run, ended.Value.Answer, now)
	case interruption && stop(run):
		closeAttempt(run, v1alpha1.ReasonCancelled, "cancelled", now)
		return end(run, v1alpha1.HookRunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled while it ran", now)
	case interruption && seen.resumes:
		return step{} // this operator ends, and what it began does not
	case interruption:
		return interrupted(run, now)
	}
	return fail(run, reasonOf(ended.Err), message(ended.Err), now)
}

// again records that the attempt goes on with another call, at its deadline at
// the latest: that it is over must not be found out only when the action is to
// be called again.
func again(run *v1alpha1.HookRun, value executor.Answer, now time.Time) step {
	next := notBefore(now.Add(value.Again))
	if open := openAttempt(run); open != nil && open.Deadline.Before(&next) {
		next = open.Deadline
	}
	if !now.Before(next.Time) {
		return outOfTime(run, now)
	}
	run.Status.NextCallTimestamp = &next
	run.Status.Message = cmp.Or(value.Message, "Not done yet")
	running(run, v1alpha1.ReasonCalledAgainLater, run.Status.Message)
	return step{after: next.Sub(now)}
}

// outOfTime ends an attempt that asked to be called again until its time was over.
func outOfTime(run *v1alpha1.HookRun, now time.Time) step {
	return fail(run, v1alpha1.ReasonTimedOut, "was not done in time", now)
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

// message returns what a person is told; the HookRun says of which action.
func message(err error) string {
	var failed *executor.Error
	if !errors.As(err, &failed) {
		return "internal error; see the operator's log"
	}
	return failed.Text
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
	return end(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonCompleted, cmp.Or(value.Message, "Done"), now)
}

// fail records a failed attempt and decides whether there is another one.
func fail(run *v1alpha1.HookRun, reason, text string, now time.Time) step {
	closeAttempt(run, reason, text, now)
	failed := failures(run)
	if run.Spec.Owed || (failed <= run.Spec.Retries && reason != v1alpha1.ReasonInvalid && reason != v1alpha1.ReasonInterrupted) {
		pause := min(firstPause<<min(max(failed-1, 0), 16), maxPause)
		next := notBefore(now.Add(pause))
		run.Status.NextCallTimestamp = &next
		run.Status.Message = executor.OneLine(fmt.Sprintf("Attempt %d failed and is repeated: %s", run.Status.Attempt, text))
		running(run, v1alpha1.ReasonRetrying, run.Status.Message)
		return step{after: next.Sub(now)}
	}
	ignorable := reason == v1alpha1.ReasonUnreachable || reason == v1alpha1.ReasonTimedOut
	if ignorable && run.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore {
		return end(run, v1alpha1.HookRunPhaseCompleted, v1alpha1.ReasonIgnored, executor.OneLine("ignored: "+text), now)
	}
	return end(run, v1alpha1.HookRunPhaseFailed, reason, text, now)
}

// failures is how many attempts failed. Those that the operator's end
// interrupted are not among them: they must not use up the retries. The attempts are
// counted, too, because an operator of an earlier version did not write the number down.
func failures(run *v1alpha1.HookRun) int32 {
	listed := int32(0)
	for _, attempt := range run.Status.Attempts {
		if isFailure(attempt.Reason) {
			listed++
		}
	}
	return max(run.Status.Failures, listed)
}

// isFailure says whether an attempt that ended with a reason failed.
func isFailure(reason string) bool {
	return reason != "" && reason != v1alpha1.ReasonInterrupted && reason != v1alpha1.ReasonCancelled
}

func closeAttempt(run *v1alpha1.HookRun, reason, text string, now time.Time) {
	open := openAttempt(run)
	if open == nil {
		return
	}
	if isFailure(reason) {
		run.Status.Failures = failures(run) + 1
	}
	at := metav1.NewTime(now)
	open.CompletionTimestamp, open.Reason, open.Message = &at, reason, text
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
		run.Status.Duration = now.Sub(start.Time).Round(time.Second).String()
	}
	status, state := metav1.ConditionTrue, conditions.Current
	if phase == v1alpha1.HookRunPhaseFailed || phase == v1alpha1.HookRunPhaseCancelled {
		status, state = metav1.ConditionFalse, conditions.Stalled
	}
	conditions.Set(run, v1alpha1.ConditionSucceeded, status, reason, text)
	conditions.Summary(run, state, reason, text)
	return step{}
}
