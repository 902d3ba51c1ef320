// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// minPollInterval is the time until the first poll. The interval then doubles up to
	// spec.pollInterval.
	minPollInterval = 500 * time.Millisecond
	// maxPollBackoff is the longest time between failing polls, unless spec.pollInterval is
	// longer.
	maxPollBackoff = time.Minute
	// maxCancelPollInterval is the longest time between polls during cancellation.
	maxCancelPollInterval = 5 * time.Second
	// The back-off between failing calls of Cancel.
	initialCancelBackoff, maxCancelBackoff = time.Second, 30 * time.Second
	// firstAnswerGracePeriod is how long after its deadline a canceled operation waits for the
	// first answer to a poll. cancelQueueGracePeriod is how long it waits for the call of Cancel
	// itself, if calls of other operations delay that.
	firstAnswerGracePeriod, cancelQueueGracePeriod = time.Minute, time.Hour
	// newPhaseDelay is the age at which phase New is written. Most operations are answered
	// before.
	newPhaseDelay = 5 * time.Second
	// jitterFactor is the relative spread of times.
	jitterFactor = 0.1
)

// addJitter makes a time randomly longer or shorter. Otherwise operations that started together
// would be polled together forever.
func (m *Machine) addJitter(d time.Duration) time.Duration {
	return d + time.Duration((2*m.Jitter()-1)*jitterFactor*float64(d))
}

// initialPollInterval is the time from a start, or from a request to cancel, to the first poll.
func initialPollInterval(op *v1alpha1.AsyncOperation) time.Duration {
	return min(minPollInterval, op.Spec.PollInterval.Duration)
}

// pollInterval is the time between two successful polls. From the start of an operation, and again
// from the request to cancel it, each interval is twice as long as the previous one.
func pollInterval(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) time.Duration {
	since, longest := mem.createdAt, op.Spec.PollInterval.Duration
	if cancel := op.Status.Cancel; cancel != nil {
		since, longest = cancel.RequestTimestamp.Time, min(longest, maxCancelPollInterval)
	}
	age := now.Sub(since)
	if age < 0 {
		return longest // the clock was set back
	}
	return min(age+initialPollInterval(op), longest)
}

// pollBackoff is the time until the next poll after failed ones.
func pollBackoff(op *v1alpha1.AsyncOperation, failures int) time.Duration {
	first := op.Spec.PollInterval.Duration
	if op.Status.Cancel != nil {
		return exponentialBackoff(min(first, time.Second), failures-1, maxCancelPollInterval)
	}
	return exponentialBackoff(first, failures-1, max(first, maxPollBackoff))
}

// exponentialBackoff doubles a time so many times, up to longest.
func exponentialBackoff(d time.Duration, times int, longest time.Duration) time.Duration {
	for ; times > 0 && d < longest; times-- {
		d *= 2
	}
	return min(d, longest)
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
