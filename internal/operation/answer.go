// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxUnknownAnswers is how often in a row a plugin must answer that it does not know an operation
// before the operation is lost. An operation may become visible to its plugin a little after it
// started. A minimum time must pass as well, because a restarted plugin may not see running
// operations.
const (
	maxUnknownAnswers  = 3
	minUnknownDuration = 5 * time.Second
)

// maxUnitsBytes is the limit of the API for the name of units, in bytes.
const maxUnitsBytes = 64

// maxClockSkew is how far the clock of a plugin may be ahead of the operator's.
const maxClockSkew = time.Hour

// handlePollResult records the result of a call of Progress.
func (m *Machine) handlePollResult(op *v1alpha1.AsyncOperation, mem *Memory, poll *PollResult, now time.Time) {
	at := metav1.NewTime(now)
	op.Status.LastPollTimestamp = &at
	mem.hasPolled = true
	if poll.Failure != nil {
		m.handlePollFailure(op, mem, poll.Failure, now)
		return
	}
	mem.pollFailure, mem.pollFailures, mem.unknownAnswers = nil, 0, 0
	recordProgress(op, mem, &poll.Progress, now)
	recordDataCaptured(op, &poll.Progress, now)
	if poll.Progress.Completed {
		finishCompleted(op, mem, &poll.Progress, now)
		return
	}
	if op.Status.Phase == v1alpha1.AsyncOperationPhaseNew {
		op.Status.Phase = v1alpha1.AsyncOperationPhaseInProgress
	}
	mem.nextPoll = now.Add(m.addJitter(pollInterval(op, mem, now)))
}

// handlePollFailure counts a failed call of Progress. The operation continues, unless the
// plugin does not know it.
func (m *Machine) handlePollFailure(op *v1alpha1.AsyncOperation, mem *Memory, failure *Failure, now time.Time) {
	if op.Status.TransientErrors < math.MaxInt32 {
		op.Status.TransientErrors++
	}
	mem.pollFailure = failure
	mem.pollFailures++
	switch {
	case failure.Unknown:
		if mem.unknownAnswers++; mem.unknownAnswers == 1 {
			mem.firstUnknownAnswer = now
		}
	case failure.Answered:
		mem.unknownAnswers = 0
	}
	if mem.unknownAnswers >= maxUnknownAnswers && now.Sub(mem.firstUnknownAnswer) >= minUnknownDuration {
		finishLost(op, failure, now)
		return
	}
	mem.nextPoll = now.Add(m.addJitter(pollBackoff(op, mem.pollFailures)))
}

// recordProgress records the progress that a plugin reported.
func recordProgress(op *v1alpha1.AsyncOperation, mem *Memory, told *item.Progress, now time.Time) {
	status, at := &op.Status, metav1.NewTime(now)
	before := status.Progress
	progress := &v1alpha1.AsyncOperationProgress{
		Completed: max(told.NCompleted, 0), Total: max(told.NTotal, 0),
		Units: text.Truncate(executor.OneLine(told.OperationUnits), maxUnitsBytes), Description: executor.OneLine(told.Description),
	}
	if told.Completed && told.Err == "" && !told.Cancelled {
		progress.Warning = executor.OneLine(told.Warning)
	}
	progress.Summary = progressSummary(progress)
	status.Progress = progress
	moved := before == nil || before.Total == 0 && progress.Total > 0 || progress.Completed > mem.maxCompleted
	if moved || status.LastProgressTimestamp == nil {
		status.LastProgressTimestamp = &at
	}
	mem.maxCompleted = max(mem.maxCompleted, progress.Completed)
	if t := plausibleTime(told.Started, now); t != nil {
		began := v1alpha1.NewMicroTime(t.Time)
		status.StartTimestamp = &began
	}
	if t := plausibleTime(told.Updated, now); t != nil {
		status.UpdateTimestamp = t
	}
	mem.recordAnswer(op, now)
}

// recordDataCaptured records when an operation has captured its data, which it has at the latest
// when it ends without an error.
func recordDataCaptured(op *v1alpha1.AsyncOperation, told *item.Progress, now time.Time) {
	captured := told.DataCaptured
	if told.Completed {
		captured = told.Err == "" && !told.Cancelled
	}
	if captured && op.Status.DataCapturedTimestamp == nil {
		at := v1alpha1.NewMicroTime(now)
		op.Status.DataCapturedTimestamp = &at
	}
}

// recordAnswer records that the plugin answers. After a long gap, or while no operator was running,
// the progress in between is unknown.
func (mem *Memory) recordAnswer(op *v1alpha1.AsyncOperation, now time.Time) {
	if s := op.Spec.StallTimeout; s != nil {
		long := max(s.Duration, 2*op.Spec.PollInterval.Duration)
		if mem.lastAnswer.IsZero() || now.Sub(mem.lastAnswer) >= long {
			mem.answeringSince = now
		}
	}
	mem.lastAnswer = now
}

// plausibleTime returns a time that a plugin reported, or nil if it is implausible: some plugins
// send January 1, 1970 for a time that is not set.
func plausibleTime(t, now time.Time) *metav1.Time {
	if t.UTC().Year() <= 1970 || t.After(now.Add(maxClockSkew)) {
		return nil
	}
	at := metav1.NewTime(t)
	return &at
}
