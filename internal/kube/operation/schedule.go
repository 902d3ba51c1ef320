// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// shortest is the time to the first question, from which on it doubles up to
	// spec.pollInterval.
	shortest = 500 * time.Millisecond
	// maxPause is the longest time between questions that fail, if spec.pollInterval is
	// not longer.
	maxPause = time.Minute
	// maxWatch is the longest time between questions while an end is waited for.
	maxWatch = 5 * time.Second
	// The time between two calls of Cancel that fail.
	firstCancelPause, maxCancelPause = time.Second, 30 * time.Second
	// maxUnanswered is how long after its deadline an operation that is cancelled waits for
	// a first answer how far it is, and maxQueue how long for the call of Cancel itself, if
	// those of other operations hold that up.
	maxUnanswered, maxQueue = time.Minute, time.Hour
	// showNew is how old an operation of which nothing is known is when that is written.
	// Most are told about before.
	showNew = 5 * time.Second
	// jitter is by how much times are spread, of their length.
	jitter = 0.1
)

// spread makes a time longer or shorter by chance: operations that began together are
// not asked about together for ever.
func (m *Machine) spread(d time.Duration) time.Duration {
	return d + time.Duration((2*m.Jitter()-1)*jitter*float64(d))
}

// firstPoll is the time from the beginning of something to the first question.
func firstPoll(op *v1alpha1.AsyncOperation) time.Duration {
	return min(shortest, op.Spec.PollInterval.Duration)
}

// interval is the time between two questions that are answered. From the beginning of an
// operation, and again of its cancel, each is twice as long as the one before.
func interval(op *v1alpha1.AsyncOperation, mem *Memory, now time.Time) time.Duration {
	since, longest := mem.born, op.Spec.PollInterval.Duration
	if cancel := op.Status.Cancel; cancel != nil {
		since, longest = cancel.RequestTimestamp.Time, min(longest, maxWatch)
	}
	age := now.Sub(since)
	if age < 0 {
		return longest // somebody set the clock back
	}
	return min(age+firstPoll(op), longest)
}

// pause is the time to the next question after some that failed.
func pause(op *v1alpha1.AsyncOperation, failures int) time.Duration {
	first := op.Spec.PollInterval.Duration
	if op.Status.Cancel != nil {
		return doubled(min(first, time.Second), failures-1, maxWatch)
	}
	return doubled(first, failures-1, max(first, maxPause))
}

// doubled returns a time that was doubled so often, up to a longest one.
func doubled(d time.Duration, times int, longest time.Duration) time.Duration {
	for ; times > 0 && d < longest; times-- {
		d *= 2
	}
	return min(d, longest)
}

// next says what is to be done about an operation that goes on.
func (mem *Memory) next(op *v1alpha1.AsyncOperation, seen Seen, now time.Time) Step {
	step := Step{Write: mem.due(op, now)}
	var times []time.Time
	if !seen.Polling {
		step.Poll = !now.Before(mem.nextPoll)
		times = append(times, mem.nextPoll)
	}
	cancel := op.Status.Cancel
	if cancel != nil && cancel.Answer != v1alpha1.CancelAnswerAcknowledged && mem.written.Cancel != nil && !seen.Cancelling {
		step.Cancel = !now.Before(mem.nextCancel)
		times = append(times, mem.nextCancel)
	}
	switch {
	case cancel != nil:
		times = append(times, mem.giveUp(op, seen))
	case op.Status.Deadline != nil:
		times = append(times, op.Status.Deadline.Time)
	}
	if mem.written.Phase == "" {
		times = append(times, mem.born.Add(showNew))
	}
	for _, t := range times {
		if d := t.Sub(now); d > 0 && (step.After == 0 || d < step.After) {
			step.After = d
		}
	}
	return step
}
