// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// decideCancel applies timeouts and requests to cancel: it requests the cancellation of an
// operation, or fails an operation whose end was not confirmed in time. It reports whether
// it changed something.
func (m *Machine) decideCancel(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) bool {
	cancel := op.Status.Cancel
	if cancel == nil {
		cause := cancelCause(op, mem, seen, now)
		if cause == "" {
			return false
		}
		op.Status.Phase = v1alpha1.AsyncOperationPhaseCancelling
		op.Status.Cancel = &v1alpha1.AsyncOperationCancel{Cause: cause}
		m.stampCancelRequest(op, mem, now)
		return true
	}
	if !mem.isCancelRecorded(cancel) {
		// Cancel was not called. The timeout starts with the write.
		m.stampCancelRequest(op, mem, now)
		return false
	}
	if !now.Before(mem.giveUpTime(seen)) {
		finishUnconfirmed(op, now)
		return true
	}
	return false
}

// giveUpTime is when to stop waiting for the end of a canceled operation. Before that, Cancel
// and Progress must have been called, even after a late restart. An operation whose calls wait for
// others for hours is not at fault, but must not delay its Backup or Restore
// forever.
func (mem *Memory) giveUpTime(seen Observed) time.Time {
	at := mem.confirmDeadline
	if mem.firstSeen.After(at) {
		at = mem.firstSeen
	}
	switch {
	case seen.CancelQueued:
		return at.Add(cancelQueueGracePeriod)
	case !mem.hasPolled:
		return at.Add(firstAnswerGracePeriod)
	}
	return mem.confirmDeadline
}

// stampCancelRequest sets the time of a request that is not written yet.
func (m *Machine) stampCancelRequest(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) {
	op.Status.Cancel.RequestTimestamp = metav1.NewTime(now)
	m.setConfirmDeadline(op, mem, now)
	mem.nextCancel = now
}

// setConfirmDeadline starts the time in which the plugin must confirm the end.
func (m *Machine) setConfirmDeadline(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) {
	op.Status.Cancel.Deadline = roundUpToSecond(now.Add(m.ConfirmTimeout))
	mem.confirmDeadline = now.Add(timeUntilDeadline(op.Status.Cancel.Deadline, m.ConfirmTimeout, now))
}

// cancelCause returns why an operation must be canceled now; "" if it need not be.
func cancelCause(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) v1alpha1.CancelCause {
	switch {
	case isCancelRequested(op, seen):
		return v1alpha1.CancelCauseRequested
	case !now.Before(mem.deadline):
		return v1alpha1.CancelCauseTimedOut
	case isStalled(op, mem, seen, now):
		return v1alpha1.CancelCauseStalled
	}
	return ""
}

// isCancelRequested reports whether the end of an operation is requested, in a way that every operator
// finds.
func isCancelRequested(op *v1alpha1.AsyncOperation, seen Observed) bool {
	return op.Spec.DesiredState == v1alpha1.DesiredStateCancel || !op.DeletionTimestamp.IsZero() || seen.Orphaned
}

// isStalled reports whether the plugin answered throughout the stall timeout without reporting
// progress. It is true only if the plugin has just answered.
func isStalled(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) bool {
	if op.Spec.StallTimeout == nil || seen.Poll == nil || seen.Poll.Failure != nil || op.Status.LastProgressTimestamp == nil {
		return false
	}
	since := op.Status.LastProgressTimestamp.Time
	if mem.answeringSince.After(since) {
		since = mem.answeringSince
	}
	return now.Sub(since) >= op.Spec.StallTimeout.Duration
}

// handleCancelResult records the result of a call of Cancel.
func (m *Machine) handleCancelResult(op *v1alpha1.AsyncOperation, mem *Memory, failure *Failure, now time.Time) {
	cancel := op.Status.Cancel
	if cancel == nil {
		return
	}
	mem.cancelSent = true
	if mem.cancelQueued && (failure == nil || failure.Answered) {
		m.setConfirmDeadline(op, mem, now) // the time starts when the plugin was called
		mem.cancelQueued = false
	}
	switch {
	case failure == nil:
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerAcknowledged, ""
	case failure.Unknown:
		// That is no refusal. Progress shows whether the operation is lost.
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerAcknowledged, executor.OneLine(failure.Text)
	case failure.Answered:
		// Perhaps not forever: the plugin may be able to cancel a little later.
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerRefused, executor.OneLine(failure.Text)
		m.scheduleCancelRetry(mem, now)
	default:
		cancel.Message = executor.OneLine(failure.Text)
		m.scheduleCancelRetry(mem, now)
		return
	}
	if soon := now.Add(initialPollInterval(op)); soon.Before(mem.nextPoll) {
		mem.nextPoll = soon
	}
}

// scheduleCancelRetry schedules another call of Cancel.
func (m *Machine) scheduleCancelRetry(mem *Memory, now time.Time) {
	mem.cancelFailures++
	mem.nextCancel = now.Add(m.addJitter(cancelBackoff(mem.cancelFailures)))
}

// cancelReason returns in words why an operation is or was to be canceled.
func cancelReason(op *v1alpha1.AsyncOperation) string {
	switch op.Status.Cancel.Cause {
	case v1alpha1.CancelCauseTimedOut:
		return fmt.Sprintf("it took longer than %s", op.Spec.Timeout.Duration)
	case v1alpha1.CancelCauseStalled:
		return fmt.Sprintf("it made no progress for %s", stallTimeout(op))
	default:
	}
	if op.Spec.CancelReason != "" {
		return executor.OneLine(op.Spec.CancelReason)
	}
	return "cancellation was requested"
}

func stallTimeout(op *v1alpha1.AsyncOperation) time.Duration {
	if op.Spec.StallTimeout == nil {
		return 0
	}
	return op.Spec.StallTimeout.Duration
}
