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

// judge decides what follows from the time and from what somebody wants: that an
// operation is cancelled, or that its end was waited for long enough. It says whether
// that changed something.
func (m *Machine) judge(op *v1alpha1.AsyncOperation, mem *Memory, seen Seen, now time.Time) bool {
	cancel := op.Status.Cancel
	if cancel == nil {
		cause := causeOf(op, mem, seen, now)
		if cause == "" {
			return false
		}
		op.Status.Phase = v1alpha1.AsyncOperationPhaseCancelling
		op.Status.Cancel = &v1alpha1.AsyncOperationCancel{Cause: cause}
		m.stamp(op, mem, now)
		return true
	}
	if mem.written.Cancel == nil {
		// It could not be written, and so the plugin was not asked. Its time begins then.
		m.stamp(op, mem, now)
		return false
	}
	if !now.Before(mem.giveUp(op, seen)) {
		unconfirmed(op, now)
		return true
	}
	return false
}

// giveUp is when the end of an operation that is cancelled is not waited for any more.
// The plugin must have been asked, for its end and whether it has ended, also after a
// restart that comes late; if it lets others wait for hours that is not the operation's
// fault, but it does not hold up its Backup or Restore for ever.
func (mem *Memory) giveUp(op *v1alpha1.AsyncOperation, seen Seen) time.Time {
	at := op.Status.Cancel.Deadline.Time
	if mem.since.After(at) {
		at = mem.since
	}
	switch {
	case seen.Queued:
		return at.Add(maxQueue)
	case !mem.polled:
		return at.Add(maxUnanswered)
	}
	return op.Status.Cancel.Deadline.Time
}

// stamp dates a request that is not written yet.
func (m *Machine) stamp(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) {
	op.Status.Cancel.RequestTimestamp = metav1.NewTime(now)
	op.Status.Cancel.Deadline = notBefore(now.Add(m.Confirm))
	mem.nextCancel = now
	if soon := now.Add(firstPoll(op)); soon.Before(mem.nextPoll) {
		mem.nextPoll = soon
	}
}

// causeOf says why an operation is to be cancelled now; "" if it is not.
func causeOf(op *v1alpha1.AsyncOperation, mem *Memory, seen Seen, now time.Time) v1alpha1.CancelCause {
	switch {
	case op.Spec.DesiredState == v1alpha1.DesiredStateCancel, !op.DeletionTimestamp.IsZero(), seen.Orphaned:
		return v1alpha1.CancelCauseRequested
	case op.Status.Deadline != nil && !now.Before(op.Status.Deadline.Time):
		return v1alpha1.CancelCauseTimedOut
	case stalled(op, mem, seen, now):
		return v1alpha1.CancelCauseStalled
	}
	return ""
}

// stalled says whether the plugin answered all the time and never told that more was
// done. It is asked only when the plugin has just answered.
func stalled(op *v1alpha1.AsyncOperation, mem *Memory, seen Seen, now time.Time) bool {
	if op.Spec.StallTimeout == nil || seen.Poll == nil || seen.Poll.Failure != nil || op.Status.LastProgressTimestamp == nil {
		return false
	}
	since := op.Status.LastProgressTimestamp.Time
	if mem.watched.After(since) {
		since = mem.watched
	}
	return now.Sub(since) >= op.Spec.StallTimeout.Duration
}

// cancelled takes note of what a call of Cancel came to.
func (m *Machine) cancelled(op *v1alpha1.AsyncOperation, mem *Memory, failure *Failure, now time.Time) {
	cancel := op.Status.Cancel
	if cancel == nil {
		return
	}
	mem.asked = true
	if mem.queued && (failure == nil || failure.Answered) {
		cancel.Deadline = notBefore(now.Add(m.Confirm)) // its time begins when it was asked
		mem.queued = false
	}
	switch {
	case failure == nil:
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerAcknowledged, ""
	case failure.Unknown:
		// It refuses nothing. Progress tells whether the operation is lost.
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerAcknowledged, executor.OneLine(failure.Text)
	case failure.Answered:
		// Perhaps not for ever: what it needs for that may be there a little later.
		cancel.Answer, cancel.Message = v1alpha1.CancelAnswerRefused, executor.OneLine(failure.Text)
		m.cancelLater(mem, now)
	default:
		cancel.Message = executor.OneLine(failure.Text)
		m.cancelLater(mem, now)
		return
	}
	if soon := now.Add(firstPoll(op)); soon.Before(mem.nextPoll) {
		mem.nextPoll = soon
	}
}

// cancelLater plans another call of Cancel.
func (m *Machine) cancelLater(mem *Memory, now time.Time) {
	mem.cancels++
	mem.nextCancel = now.Add(m.spread(doubled(firstCancelPause, mem.cancels-1, maxCancelPause)))
}

// why says in words why an operation is or was to be cancelled.
func why(op *v1alpha1.AsyncOperation) string {
	switch op.Status.Cancel.Cause {
	case v1alpha1.CancelCauseTimedOut:
		return fmt.Sprintf("it took longer than %s", op.Spec.Timeout.Duration)
	case v1alpha1.CancelCauseStalled:
		return fmt.Sprintf("nothing more of it was done for %s", stallTimeout(op))
	default:
	}
	if op.Spec.CancelReason != "" {
		return executor.OneLine(op.Spec.CancelReason)
	}
	return "that was asked for"
}

func stallTimeout(op *v1alpha1.AsyncOperation) time.Duration {
	if op.Spec.StallTimeout == nil {
		return 0
	}
	return op.Spec.StallTimeout.Duration
}
