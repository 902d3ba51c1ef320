// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// DefaultConfirm is how long a plugin has to confirm a cancel.
const DefaultConfirm = 5 * time.Minute

// Machine decides about operations. It is safe for concurrent use if Jitter is.
type Machine struct {
	// Confirm is how long after the request of a cancel the end must be confirmed; after the
	// answer of the plugin, if the call had to wait for others.
	Confirm time.Duration
	// Jitter returns a random number of at least 0 and less than 1, by which the times of
	// questions are spread.
	Jitter func() float64
}

// Seen is what was observed of an operation since the last Decide.
type Seen struct {
	// Poll is what a call of Progress came to, and Cancel what one of Cancel did; nil if
	// none ended.
	Poll   *Poll
	Cancel *Cancel
	// Polling and Cancelling say that such a call is on its way.
	Polling, Cancelling bool
	// Queued says of the call of Cancel that it waits for others to end.
	Queued bool
	// Orphaned says that the Backup or Restore is gone, or has ended without the operation.
	Orphaned bool
}

// Poll is what a call of Progress came to.
type Poll struct {
	// Progress is the answer, if there is no Failure. Its texts hold no secrets.
	Progress item.Progress
	Failure  *Failure
}

// Cancel is what a call of Cancel came to: acknowledged, if there is no Failure.
type Cancel struct{ Failure *Failure }

// Failure is why a call did not succeed.
type Failure struct {
	// Answered says that the plugin answered, with an error.
	Answered bool
	// Unknown says that it answered that it does not know the operation.
	Unknown bool
	// Text is for people. It holds no secrets.
	Text string
}

// Step is what is to be done next.
type Step struct {
	// Write says whether the status is due to be written.
	Write Urgency
	// Poll and Cancel say which calls are to be made now. Cancel is never set before the
	// request is written: after a write, Decide is to be asked again.
	Poll, Cancel bool
	// After is when Decide is to be asked again at the latest, if nothing happens before;
	// 0 means that there is no such time.
	After time.Duration
}

// Urgency says whether a status is written.
type Urgency int

// The urgencies.
const (
	// Keep means that nothing is worth a write.
	Keep Urgency = iota
	// May means that it is written if that can be done now. A later Decide asks again.
	May
	// Must means that it is written before anything else is, and waits if need be.
	Must
)

// Memory is what a Machine remembers of an operation beside its status. Its loss costs
// some questions more. The zero Memory is ready.
type Memory struct {
	// begun says that the rest is valid.
	begun bool
	// born is when the operation was created, as exactly as that is known.
	born time.Time
	// written is the status that was written or found last.
	written v1alpha1.AsyncOperationStatus
	// reason is that of the conditions, which written does not have.
	reason string

	// nextPoll and nextCancel are when to call.
	nextPoll, nextCancel time.Time
	// polled says that a call of Progress came back; answered is when the last one was
	// answered well, and watched since when that was so without a long gap. Since is when
	// this process saw the operation first.
	since             time.Time
	polled            bool
	answered, watched time.Time
	// most is the most that was seen to be done.
	most int64
	// failure is why the last call of Progress failed, failures how many did one after
	// another, and unknown how many of these said that there is no such operation, the
	// first of them at unknownAt.
	failure           *Failure
	failures, unknown int
	unknownAt         time.Time
	// asked says that the plugin may have been called to cancel, cancels how often that
	// failed, and queued that a call had to wait for others.
	asked, queued bool
	cancels       int
}

// Wrote takes note of a status that was written.
func (mem *Memory) Wrote(status *v1alpha1.AsyncOperationStatus) {
	small := *status
	small.Conditions = nil // there may be ten thousand of them, and the rest of the status says the same
	mem.written, mem.reason = *small.DeepCopy(), reasonOf(status)
}

// begin fills a Memory from the status of an operation that this process did not see yet.
func (mem *Memory) begin(op *v1alpha1.AsyncOperation, now time.Time) {
	mem.begun, mem.since = true, now
	mem.Wrote(&op.Status)
	// The API keeps whole seconds.
	if mem.born = op.CreationTimestamp.Time; now.Sub(mem.born) < 1500*time.Millisecond {
		mem.born = now
	}
	mem.asked = op.Status.Cancel != nil
	if p := op.Status.Progress; p != nil {
		mem.most = p.Completed
	}
	mem.nextPoll = mem.born.Add(firstPoll(op))
}

// Decide moves the status of an operation on. The operation is the one that Decide left
// the last time, or as it is stored if the Memory is new.
func (m *Machine) Decide(op *v1alpha1.AsyncOperation, mem *Memory, seen Seen, now time.Time) Step {
	if !mem.begun {
		mem.begin(op, now)
	}
	if op.Ended() {
		return Step{Write: mem.due(op, now)}
	}
	changed := prepare(op) || seen.Poll != nil || seen.Cancel != nil
	mem.asked, mem.queued = mem.asked || seen.Cancelling && !seen.Queued, mem.queued || seen.Queued
	if seen.Cancel != nil {
		m.cancelled(op, mem, seen.Cancel.Failure, now)
	}
	if seen.Poll != nil {
		m.polled(op, mem, seen.Poll, now)
	}
	if !op.Ended() && m.judge(op, mem, seen, now) {
		changed = true
	}
	if op.Ended() {
		return Step{Write: mem.due(op, now)}
	}
	if changed {
		describe(op, mem)
	}
	return mem.next(op, seen, now)
}

// prepare fills in what an operation has from the beginning, and says whether it was
// missing.
func prepare(op *v1alpha1.AsyncOperation) bool {
	if op.Status.Phase != "" {
		return false
	}
	op.Status.Phase = v1alpha1.AsyncOperationPhaseNew
	deadline := notBefore(op.CreationTimestamp.Add(op.Spec.Timeout.Duration))
	op.Status.Deadline = &deadline
	return true
}

// notBefore returns the first time from at on that the API can hold: it keeps whole
// seconds, and a deadline that is read back must not be shorter than it was meant.
func notBefore(at time.Time) metav1.Time {
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second)
	}
	return metav1.NewTime(at)
}
