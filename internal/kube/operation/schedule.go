// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// minPollInterval is the time to the first question, from which on it doubles up to
	// spec.pollInterval.
	minPollInterval = 500 * time.Millisecond
	// maxPollBackoff is the longest time between questions that fail, if spec.pollInterval is
	// not longer.
	maxPollBackoff = time.Minute
	// maxCancelPollInterval is the longest time between questions while an end is waited for.
	maxCancelPollInterval = 5 * time.Second
	// The time between two calls of Cancel that fail.
	initialCancelBackoff, maxCancelBackoff = time.Second, 30 * time.Second
	// firstAnswerGracePeriod is how long after its deadline an operation that is cancelled waits for
	// a first answer how far it is, and cancelQueueGracePeriod how long for the call of Cancel itself, if
	// those of other operations hold that up.
	firstAnswerGracePeriod, cancelQueueGracePeriod = time.Minute, time.Hour
	// newPhaseDelay is how old an operation of which nothing is known is when that is written.
	// Most are told about before.
	newPhaseDelay = 5 * time.Second
	// jitterFactor is by how much times are spread, of their length.
	jitterFactor = 0.1
)

// addJitter makes a time longer or shorter by chance: operations that began together are
// not asked about together for ever.
func (m *Machine) addJitter(d time.Duration) time.Duration {
	return d + time.Duration((2*m.Jitter()-1)*jitterFactor*float64(d))
}

// initialPollInterval is the time from the beginning of something to the first question.
func initialPollInterval(op *v1alpha1.AsyncOperation) time.Duration {
	return min(minPollInterval, op.Spec.PollInterval.Duration)
}

// pollInterval is the time between two questions that are answered. From the beginning of an
// operation, and again of its cancel, each is twice as long as the one before.
func pollInterval(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) time.Duration {
	since, longest := mem.createdAt, op.Spec.PollInterval.Duration
	if cancel := op.Status.Cancel; cancel != nil {
		since, longest = cancel.RequestTimestamp.Time, min(longest, maxCancelPollInterval)
	}
	age := now.Sub(since)
	if age < 0 {
		return longest // somebody set the clock back
	}
	return min(age+initialPollInterval(op), longest)
}

// pollBackoff is the time to the next question after some that failed.
func pollBackoff(op *v1alpha1.AsyncOperation, failures int) time.Duration {
	first := op.Spec.PollInterval.Duration
	if op.Status.Cancel != nil {
		return exponentialBackoff(min(first, time.Second), failures-1, maxCancelPollInterval)
	}
	return exponentialBackoff(first, failures-1, max(first, maxPollBackoff))
}

// exponentialBackoff returns a time that was doubled so often, up to a longest one.
func exponentialBackoff(d time.Duration, times int, longest time.Duration) time.Duration {
	for ; times > 0 && d < longest; times-- {
		d *= 2
	}
	return min(d, longest)
}

// nextDecision says what is to be done about an operation that goes on.
func (mem *Memory) nextDecision(op *v1alpha1.AsyncOperation, seen Observed, now time.Time) Decision {
	step := Decision{Write: mem.writeUrgency(op, now)}
	var times []time.Time
	if !seen.Polling {
		step.Poll = !now.Before(mem.nextPoll)
		times = append(times, mem.nextPoll)
	}
	cancel := op.Status.Cancel
	if cancel != nil && cancel.Answer != v1alpha1.CancelAnswerAcknowledged && mem.writtenStatus.Cancel != nil && !seen.Cancelling {
		step.Cancel = !now.Before(mem.nextCancel)
		times = append(times, mem.nextCancel)
	}
	switch {
	case cancel != nil:
		times = append(times, mem.giveUpTime(seen))
	case op.Status.Deadline != nil:
		times = append(times, mem.deadline)
	}
	if mem.writtenStatus.Phase == "" {
		times = append(times, mem.createdAt.Add(newPhaseDelay))
	}
	for _, t := range times {
		if d := t.Sub(now); d > 0 && (step.RequeueAfter == 0 || d < step.RequeueAfter) {
			step.RequeueAfter = d
		}
	}
	return step
}
