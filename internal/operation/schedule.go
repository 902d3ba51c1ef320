// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
)

const (
	// minPollInterval is the time until the first poll. The interval then doubles up to
	// spec.pollInterval.
	minPollInterval = 500 * time.Millisecond
	// maxPollBackoff is the longest time between failing polls, unless spec.pollInterval is
	// longer.
	maxPollBackoff = time.Minute
	// maxCapturedPollInterval is the longest time between polls of an operation that has captured
	// its data, unless spec.pollInterval is longer: no application waits for it.
	maxCapturedPollInterval = 5 * time.Second
	// maxCancelPollInterval is the longest time between polls during cancellation.
	maxCancelPollInterval = 5 * time.Second
	// firstAnswerGracePeriod is how long after its deadline a canceled operation waits for the
	// first answer to a poll. cancelQueueGracePeriod is how long it waits for the call of Cancel
	// itself, if calls of other operations delay that.
	firstAnswerGracePeriod, cancelQueueGracePeriod = time.Minute, time.Hour
	// transientDelay is how long phases New and Cancelling stay unwritten. Most operations leave them
	// before, and there may be thousands.
	transientDelay = 5 * time.Second
	// jitterFactor is the relative spread of times.
	jitterFactor = 0.1
)

// addJitter makes a time randomly longer or shorter. Otherwise operations that started together
// would be polled together forever.
func (m *Machine) addJitter(d time.Duration) time.Duration {
	return d + time.Duration((2*m.Jitter()-1)*jitterFactor*float64(d))
}

// initialPollInterval is the time from a start, or from the answer of Cancel, to the first poll.
func initialPollInterval(op *v1alpha1.AsyncOperation) time.Duration {
	return min(minPollInterval, op.Spec.PollInterval.Duration)
}

// pollInterval is the time between two successful polls. From the start of an operation, and again
// from the request to cancel it, each interval is twice as long as the previous one.
func pollInterval(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) time.Duration {
	since, longest := mem.createdAt, op.Spec.PollInterval.Duration
	if cancel := op.Status.Cancel; cancel != nil && mem.isCancelRecorded(cancel) {
		since, longest = cancel.RequestTimestamp.Time, min(longest, maxCancelPollInterval)
	}
	growth := now.Sub(since)
	if growth < 0 {
		return longest // the clock was set back
	}
	if op.Status.DataCapturedTimestamp != nil && op.Status.Cancel == nil {
		growth, longest = growth/4, max(longest, maxCapturedPollInterval)
	}
	return min(growth+initialPollInterval(op), longest)
}

// pollBackoff is the time until the next poll after failed ones.
func pollBackoff(op *v1alpha1.AsyncOperation, failures int) time.Duration {
	first := op.Spec.PollInterval.Duration
	if op.Status.Cancel != nil {
		return backoff.Delay(wait.Backoff{Duration: min(first, time.Second), Factor: 2, Cap: maxCancelPollInterval}, failures)
	}
	return backoff.Delay(wait.Backoff{Duration: first, Factor: 2, Cap: max(first, maxPollBackoff)}, failures)
}

// cancelBackoff is the time until the next call of Cancel after failed ones.
func cancelBackoff(failures int) time.Duration {
	return backoff.Delay(wait.Backoff{Duration: time.Second, Factor: 2, Cap: 30 * time.Second}, failures)
}

// nextDecision returns what to do about an unfinished operation.
func (mem *Memory) nextDecision(op *v1alpha1.AsyncOperation, seen Observed, now time.Time) Decision {
	step := Decision{Write: mem.writeUrgency(op, now)}
	var times []time.Time
	if !seen.Polling {
		step.Poll = !now.Before(mem.nextPoll)
		times = append(times, mem.nextPoll)
	}
	cancel := op.Status.Cancel
	if cancel != nil && cancel.Answer != v1alpha1.CancelAnswerAcknowledged && mem.isCancelRecorded(cancel) && !seen.Cancelling {
		step.Cancel = !now.Before(mem.nextCancel)
		times = append(times, mem.nextCancel)
	}
	switch {
	case cancel != nil:
		times = append(times, mem.giveUpTime(seen))
		if written := mem.writtenStatus.Cancel; written == nil || written.Answer != cancel.Answer {
			times = append(times, cancel.RequestTimestamp.Add(transientDelay))
		}
	case op.Status.Deadline != nil:
		times = append(times, mem.deadline)
	}
	if mem.writtenStatus.Phase == "" {
		times = append(times, mem.createdAt.Add(transientDelay))
	}
	for _, t := range times {
		if d := t.Sub(now); d > 0 && (step.RequeueAfter == 0 || d < step.RequeueAfter) {
			step.RequeueAfter = d
		}
	}
	return step
}
