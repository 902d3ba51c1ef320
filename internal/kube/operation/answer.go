// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxUnknown is how often in a row a plugin says that it does not know an operation
// until it is lost. Where the plugin looks, it may appear a little later than it began.
// It is given some time all the same: a plugin that was restarted may not see what goes on.
const (
	maxUnknown = 3
	unknownFor = 5 * time.Second
)

// maxUnits is what the API allows for the name of units, in bytes.
const maxUnits = 64

// maxAhead is how far ahead of ours a plugin's clock may be.
const maxAhead = time.Hour

// polled takes note of what a call of Progress came to.
func (m *Machine) polled(op *v1alpha1.AsyncOperation, mem *Memory, poll *Poll, now time.Time) {
	at := metav1.NewTime(now)
	op.Status.LastPollTimestamp = &at
	mem.polled = true
	if poll.Failure != nil {
		m.pollFailed(op, mem, poll.Failure, now)
		return
	}
	mem.failure, mem.failures, mem.unknown = nil, 0, 0
	note(op, mem, &poll.Progress, now)
	if poll.Progress.Completed {
		completed(op, mem, &poll.Progress, now)
		return
	}
	if op.Status.Phase == v1alpha1.AsyncOperationPhaseNew {
		op.Status.Phase = v1alpha1.AsyncOperationPhaseInProgress
	}
	mem.nextPoll = now.Add(m.spread(interval(op, mem, now)))
}

// pollFailed counts a call of Progress that was not answered, or not well. The
// operation goes on, unless the plugin does not know it.
func (m *Machine) pollFailed(op *v1alpha1.AsyncOperation, mem *Memory, failure *Failure, now time.Time) {
	if op.Status.TransientErrors < math.MaxInt32 {
		op.Status.TransientErrors++
	}
	mem.failure = failure
	mem.failures++
	switch {
	case failure.Unknown:
		if mem.unknown++; mem.unknown == 1 {
			mem.unknownAt = now
		}
	case failure.Answered:
		mem.unknown = 0
	}
	if mem.unknown >= maxUnknown && now.Sub(mem.unknownAt) >= unknownFor {
		lost(op, failure, now)
		return
	}
	mem.nextPoll = now.Add(m.spread(pause(op, mem.failures)))
}

// note records what a plugin told.
func note(op *v1alpha1.AsyncOperation, mem *Memory, told *item.Progress, now time.Time) {
	status, at := &op.Status, metav1.NewTime(now)
	before := status.Progress
	progress := &v1alpha1.AsyncOperationProgress{
		Completed: max(told.NCompleted, 0), Total: max(told.NTotal, 0),
		Units: cut(executor.OneLine(told.OperationUnits), maxUnits), Description: executor.OneLine(told.Description),
	}
	progress.Summary = summary(progress)
	status.Progress = progress
	moved := before == nil || before.Total == 0 && progress.Total > 0 || progress.Completed > mem.most
	if moved || status.LastProgressTimestamp == nil {
		status.LastProgressTimestamp = &at
	}
	mem.most = max(mem.most, progress.Completed)
	if t := plausible(told.Started, now); t != nil {
		status.StartTimestamp = t
	}
	if t := plausible(told.Updated, now); t != nil {
		status.UpdateTimestamp = t
	}
	mem.watch(op, now)
}

// watch takes note that the plugin answers. What became of an operation while it did
// not for long, or while there was no operator, nobody knows.
func (mem *Memory) watch(op *v1alpha1.AsyncOperation, now time.Time) {
	if s := op.Spec.StallTimeout; s != nil {
		long := max(s.Duration, 2*op.Spec.PollInterval.Duration)
		if mem.answered.IsZero() || now.Sub(mem.answered) >= long {
			mem.watched = now
		}
	}
	mem.answered = now
}

// plausible returns a time that a plugin told, or nil if it makes no sense: a time that
// is not set arrives as the first of January 1970 from some.
func plausible(t, now time.Time) *metav1.Time {
	if t.UTC().Year() <= 1970 || t.After(now.Add(maxAhead)) {
		return nil
	}
	at := metav1.NewTime(t)
	return &at
}

// cut returns the beginning of a text, without half a character at its end.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return strings.TrimSpace(text[:size])
}
