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
	// ConfirmTimeout is how long after the request of a cancel the end must be confirmed; after the
	// answer of the plugin, if the call had to wait for others.
	ConfirmTimeout time.Duration
	// Jitter returns a random number of at least 0 and less than 1, by which the times of
	// questions are spread.
	Jitter func() float64
}

// Observed is what was observed of an operation since the last Decide.
type Observed struct {
	// Poll is what a call of Progress came to, and Cancel what one of Cancel did; nil if
	// none ended.
	Poll   *PollResult
	Cancel *CancelResult
	// Polling and Cancelling say that such a call is on its way.
	Polling, Cancelling bool
	// CancelQueued says of the call of Cancel that it waits for others to end.
	CancelQueued bool
	// ServerTime is the time of the API server, which is worth a question the first time that an
	// operation is seen: the clock of this machine may be ahead. Zero if it was not asked.
	ServerTime time.Time
	// Orphaned says that the Backup or Restore is gone, or has ended without the operation.
	Orphaned bool
}

// PollResult is what a call of Progress came to.
type PollResult struct {
	// Progress is the answer, if there is no Failure. Its texts hold no secrets.
	Progress item.Progress
	Failure  *Failure
}

// CancelResult is what a call of Cancel came to: acknowledged, if there is no Failure.
type CancelResult struct{ Failure *Failure }

// Failure is why a call did not succeed.
type Failure struct {
	// Answered says that the plugin answered, with an error.
	Answered bool
	// Unknown says that it answered that it does not know the operation.
	Unknown bool
	// Text is for people. It holds no secrets.
	Text string
}

// Decision is what is to be done next.
type Decision struct {
	// Write says whether the status is due to be written.
	Write WriteUrgency
	// Poll and Cancel say which calls are to be made now. Cancel is never set before the
	// request is written: after a write, Decide is to be asked again.
	Poll, Cancel bool
	// RequeueAfter is when Decide is to be asked again at the latest, if nothing happens before;
	// 0 means that there is no such time.
	RequeueAfter time.Duration
}

// WriteUrgency says whether a status is written.
type WriteUrgency int

// The urgencies.
const (
	// NoWrite means that nothing is worth a write.
	NoWrite WriteUrgency = iota
	// OptionalWrite means that it is written if that can be done now. A later Decide asks again.
	OptionalWrite
	// RequiredWrite means that it is written before anything else is, and waits if need be.
	RequiredWrite
)

// Memory is what a Machine remembers of an operation beside its status. Its loss costs
// some questions more. The zero Memory is ready.
type Memory struct {
	// initialized says that the rest is valid.
	initialized bool
	// createdAt is when the operation was created, as exactly as that is known.
	createdAt time.Time
	// deadline is that of the operation, and confirmDeadline that of its cancel, by the clock of this
	// process, which cannot be set.
	deadline, confirmDeadline time.Time
	// writtenStatus is the status that was written or found last.
	writtenStatus v1alpha1.AsyncOperationStatus
	// writtenReason is that of the conditions, which written does not have.
	writtenReason string

	// nextPoll and nextCancel are when to call.
	nextPoll, nextCancel time.Time
	// polled says that a call of Progress came back; answered is when the last one was
	// answered well, and watched since when that was so without a long gap. Since is when
	// this process saw the operation first.
	firstSeen                  time.Time
	hasPolled                  bool
	lastAnswer, answeringSince time.Time
	// maxCompleted is the most that was seen to be done.
	maxCompleted int64
	// pollFailure is why the last call of Progress failed, failures how many did one after
	// another, and unknown how many of these said that there is no such operation, the
	// first of them at firstUnknownAnswer.
	pollFailure                  *Failure
	pollFailures, unknownAnswers int
	firstUnknownAnswer           time.Time
	// cancelSent says that the plugin may have been called to cancel, cancels how often that
	// failed, and queued that a call had to wait for others.
	cancelSent, cancelQueued bool
	cancelFailures           int
}

// RecordWritten takes note of a status that was written.
func (mem *Memory) RecordWritten(status *v1alpha1.AsyncOperationStatus) {
	small := *status
	small.Conditions = nil // there may be ten thousand of them, and the rest of the status says the same
	mem.writtenStatus, mem.writtenReason = *small.DeepCopy(), succeededReason(status)
}

// initializeMemory fills a Memory from the status of an operation that this process did not see yet.
func (m *Machine) initializeMemory(op *v1alpha1.AsyncOperation, mem *Memory, serverTime, now time.Time) {
	mem.initialized, mem.firstSeen = true, now
	if serverTime.IsZero() {
		serverTime = now
	}
	mem.deadline = now.Add(timeUntilDeadline(operationDeadline(op), op.Spec.Timeout.Duration, serverTime))
	mem.RecordWritten(&op.Status)
	// The API keeps whole seconds.
	if mem.createdAt = op.CreationTimestamp.Time; now.Sub(mem.createdAt) < 1500*time.Millisecond {
		mem.createdAt = now
	}
	if mem.cancelSent = op.Status.Cancel != nil; mem.cancelSent {
		mem.confirmDeadline = now.Add(timeUntilDeadline(op.Status.Cancel.Deadline, m.ConfirmTimeout, now))
	}
	if p := op.Status.Progress; p != nil {
		mem.maxCompleted = p.Completed
	}
	mem.nextPoll = mem.createdAt.Add(initialPollInterval(op))
}

// Decide moves the status of an operation on. The operation is the one that Decide left
// the last time, or as it is stored if the Memory is new.
func (m *Machine) Decide(op *v1alpha1.AsyncOperation, mem *Memory, seen Observed, now time.Time) Decision {
	if !mem.initialized {
		m.initializeMemory(op, mem, seen.ServerTime, now)
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

// setInitialStatus fills in what an operation has from the beginning, and says whether it was
// missing.
func setInitialStatus(op *v1alpha1.AsyncOperation) bool {
	if op.Status.Phase != "" {
		return false
	}
	op.Status.Phase = v1alpha1.AsyncOperationPhaseNew
	deadline := operationDeadline(op)
	op.Status.Deadline = &deadline
	return true
}

// operationDeadline returns the deadline of an operation as it is recorded.
func operationDeadline(op *v1alpha1.AsyncOperation) metav1.Time {
	if op.Status.Deadline != nil {
		return *op.Status.Deadline
	}
	return roundUpToSecond(op.CreationTimestamp.Add(op.Spec.Timeout.Duration))
}

// timeUntilDeadline returns how long there is still to a deadline that this process sees for the first time:
// the whole timeout at most, as the clock that recorded the deadline may have been set back since.
func timeUntilDeadline(deadline metav1.Time, timeout time.Duration, now time.Time) time.Duration {
	whole := roundUpToSecond(now.Add(timeout)).Sub(now)
	return min(whole, deadline.Sub(now))
}

// roundUpToSecond returns the first time from at on that the API can hold: it keeps whole
// seconds, and a deadline that is read back must not be shorter than it was meant.
func roundUpToSecond(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
}
