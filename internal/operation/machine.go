// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// DefaultConfirmTimeout is how long a plugin has to confirm a cancel.
const DefaultConfirmTimeout = 5 * time.Minute

// Machine decides about operations. It is safe for concurrent use if Jitter is.
type Machine struct {
	// ConfirmTimeout is how long the plugin has to confirm the end, counted from the request to
	// cancel or, if the call of Cancel had to wait for others, from its answer.
	ConfirmTimeout time.Duration
	// Jitter returns a random number in [0, 1), which spreads the times of
	// polls.
	Jitter func() float64
}

// Observed is what was observed of an operation since the last Decide.
type Observed struct {
	// Poll is the result of a call of Progress, and Cancel that of a call of Cancel; nil if
	// none ended.
	Poll   *PollResult
	Cancel *CancelResult
	// Polling and Cancelling mean that such a call is in flight.
	Polling, Cancelling bool
	// CancelQueued means that the call of Cancel waits for a slot.
	CancelQueued bool
	// ServerTime is the time of the API server; zero if unknown. It matters the first time that an
	// operation is seen, because the clock of this machine may be ahead.
	ServerTime time.Time
	// Orphaned means that the Backup or Restore no longer exists, or has finished without the
	// operation.
	Orphaned bool
}

// PollResult is the result of a call of Progress.
type PollResult struct {
	// Progress is the answer, if there is no Failure. Its texts contain no secrets.
	Progress item.Progress
	Failure  *Failure
}

// CancelResult is the result of a call of Cancel: acknowledged, if there is no Failure.
type CancelResult struct{ Failure *Failure }

// Failure is why a call failed.
type Failure struct {
	// Answered means that the plugin answered, with an error.
	Answered bool
	// Unknown means that the plugin answered that it does not know the operation.
	Unknown bool
	// Text is for users. It contains no secrets.
	Text string
}

// Decision is what to do next.
type Decision struct {
	// Write is how urgently the status must be written.
	Write WriteUrgency
	// Poll and Cancel are the calls to make now. Cancel is never set before the
	// request is written: call Decide again after a write.
	Poll, Cancel bool
	// RequeueAfter is when to call Decide again at the latest, if nothing happens before;
	// 0 means that there is no such time.
	RequeueAfter time.Duration
}

// WriteUrgency is how urgently a status must be written.
type WriteUrgency int

// The urgencies.
const (
	// NoWrite means that nothing is worth a write.
	NoWrite WriteUrgency = iota
	// OptionalWrite means that the status is written if that is possible now. A later Decide
	// returns OptionalWrite again.
	OptionalWrite
	// RequiredWrite means that the status is written before all else, and waits if necessary.
	RequiredWrite
)

// Memory is what a Machine remembers of an operation besides its status. Losing it costs
// a few additional polls. The zero Memory is ready to use.
type Memory struct {
	// initialized means that the other fields are valid.
	initialized bool
	// createdAt is when the operation was created, as precisely as known.
	createdAt time.Time
	// deadline is that of the operation, and confirmDeadline that of its cancellation, by the
	// monotonic clock of this process.
	deadline, confirmDeadline time.Time
	// writtenStatus is the status that was written or found last.
	writtenStatus v1alpha1.AsyncOperationStatus
	// writtenReason is the reason of the conditions, which writtenStatus does not contain.
	writtenReason string

	// nextPoll and nextCancel are when to call.
	nextPoll, nextCancel time.Time
	// firstSeen is when this process first saw the operation. hasPolled means that a call of
	// Progress returned. lastAnswer is when the last one succeeded, and answeringSince is since
	// when that was so without a long gap.
	firstSeen                  time.Time
	hasPolled                  bool
	lastAnswer, answeringSince time.Time
	// maxCompleted is the largest number of completed units seen.
	maxCompleted int64
	// pollFailure is why the last call of Progress failed. pollFailures is how many failed in a
	// row, and unknownAnswers how many of these reported an unknown operation, the first of them
	// at firstUnknownAnswer.
	pollFailure                  *Failure
	pollFailures, unknownAnswers int
	firstUnknownAnswer           time.Time
	// cancelSent means that Cancel may have been called, cancelFailures is how often it failed,
	// and cancelQueued means that a call had to wait for others.
	cancelSent, cancelQueued bool
	cancelFailures           int
}

// RecordWritten records a status that was written.
func (mem *Memory) RecordWritten(status *v1alpha1.AsyncOperationStatus) {
	small := *status
	small.Conditions = nil // there may be ten thousand of them, and the rest of the status says the same
	mem.writtenStatus, mem.writtenReason = *small.DeepCopy(), succeededReason(status)
}

// initializeMemory fills a Memory from the status of an operation that is new to this process.
func (m *Machine) initializeMemory(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) {
	mem.initialized, mem.firstSeen = true, now
	serverTime := seen.ServerTime
	if serverTime.IsZero() {
		serverTime = now
	}
	mem.deadline = now.Add(timeUntilDeadline(operationDeadline(op), op.Spec.Timeout.Duration, serverTime))
	mem.RecordWritten(&op.Status)
	// The API stores whole seconds.
	if mem.createdAt = op.CreationTimestamp.Time; now.Sub(mem.createdAt) < 1500*time.Millisecond {
		mem.createdAt = now
	}
	// Another process may have called Cancel without writing it: see isCancelRecorded.
	mem.cancelSent = op.Status.Cancel != nil || isCancelRequested(op, seen)
	if op.Status.Cancel != nil {
		mem.confirmDeadline = now.Add(timeUntilDeadline(op.Status.Cancel.Deadline, m.ConfirmTimeout, now))
	}
	if p := op.Status.Progress; p != nil {
		mem.maxCompleted = p.Completed
	}
	mem.nextPoll = mem.createdAt.Add(initialPollInterval(op))
}

// Decide advances the status of an operation. op is the object that the last Decide changed,
// or the stored object if the Memory is new.
func (m *Machine) Decide(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) Decision {
	if !mem.initialized {
		m.initializeMemory(op, mem, seen, now)
	}
	if op.Ended() {
		return Decision{Write: mem.writeUrgency(op, now)}
	}
	changed := setInitialStatus(op) || seen.Poll != nil || seen.Cancel != nil
	mem.cancelSent, mem.cancelQueued = mem.cancelSent || seen.Cancelling && !seen.CancelQueued, mem.cancelQueued || seen.CancelQueued
	if seen.Cancel != nil {
		m.handleCancelResult(op, mem, seen.Cancel.Failure, now)
	}
	if seen.Poll != nil {
		m.handlePollResult(op, mem, seen.Poll, now)
	}
	if !op.Ended() && m.decideCancel(op, mem, seen, now) {
		changed = true
	}
	if op.Ended() {
		return Decision{Write: mem.writeUrgency(op, now)}
	}
	if changed {
		setUnfinishedConditions(op, mem)
	}
	return mem.nextDecision(op, seen, now)
}

// setInitialStatus sets the fields that an operation has from the start, and reports whether they
// were missing.
func setInitialStatus(op *v1alpha1.AsyncOperation) bool {
	if op.Status.Phase != "" {
		return false
	}
	op.Status.Phase = v1alpha1.AsyncOperationPhaseNew
	deadline := operationDeadline(op)
	op.Status.Deadline = &deadline
	return true
}

// operationDeadline returns the recorded deadline of an operation.
func operationDeadline(op *v1alpha1.AsyncOperation) metav1.Time {
	if op.Status.Deadline != nil {
		return *op.Status.Deadline
	}
	return roundUpToSecond(op.CreationTimestamp.Add(op.Spec.Timeout.Duration))
}

// timeUntilDeadline returns the time left until a deadline that is new to this process. It is at
// most the whole timeout, because the clock that recorded the deadline may have been set back
// since.
func timeUntilDeadline(deadline metav1.Time, timeout time.Duration, now time.Time) time.Duration {
	whole := roundUpToSecond(now.Add(timeout)).Sub(now)
	return min(whole, deadline.Sub(now))
}

// roundUpToSecond rounds a time up to a whole second. The API truncates to seconds, which would
// shorten a deadline.
func roundUpToSecond(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
}
