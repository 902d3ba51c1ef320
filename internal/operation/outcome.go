// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// finishCompleted finishes an operation that ended according to its plugin.
func finishCompleted(op *v1alpha1.AsyncOperation, mem *Memory, told *item.Progress, now time.Time) {
	cancel := op.Status.Cancel
	failed := told.Err != "" && !told.Cancelled
	refused := cancel != nil && cancel.Answer == v1alpha1.CancelAnswerRefused
	switch {
	case cancel == nil && told.Cancelled:
		finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationFailed,
			appendDetail("The plugin reports a cancellation that was not requested", told.Err), now)
	case told.Cancelled, failed && cancel != nil && mem.cancelSent && !refused:
		finishCanceled(op, now)
	case failed && refused && cancel.Cause != v1alpha1.CancelCauseRequested:
		finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, reasonForCause(cancel.Cause), appendDetail("Failed after "+cancelReason(op), told.Err), now)
	case failed:
		finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationFailed, executor.OneLine(told.Err), now)
	case cancel != nil:
		finishOperation(op, v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.ReasonCompleted,
			fmt.Sprintf("Completed after %s, before it could be canceled because %s", operationDuration(op, now), cancelReason(op)), now)
	default:
		finishOperation(op, v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.ReasonCompleted,
			fmt.Sprintf("Completed after %s", operationDuration(op, now)), now)
	}
}

// finishCanceled finishes an operation that ended because it was canceled.
func finishCanceled(op *v1alpha1.AsyncOperation, now time.Time) {
	cause := op.Status.Cancel.Cause
	if cause == v1alpha1.CancelCauseRequested {
		text := fmt.Sprintf("Canceled after %s", operationDuration(op, now))
		finishOperation(op, v1alpha1.AsyncOperationPhaseCancelled, v1alpha1.ReasonCancelled, appendDetail(text, op.Spec.CancelReason), now)
		return
	}
	finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, reasonForCause(cause), fmt.Sprintf("Canceled because %s", cancelReason(op)), now)
}

// reasonForCause returns the reason of an operation that was canceled because of a timeout.
func reasonForCause(cause v1alpha1.CancelCause) string {
	if cause == v1alpha1.CancelCauseStalled {
		return v1alpha1.ReasonOperationStalled
	}
	return v1alpha1.ReasonTimedOut
}

// finishLost finishes an operation that the plugin does not know.
func finishLost(op *v1alpha1.AsyncOperation, failure *Failure, now time.Time) {
	text := "The plugin no longer knows the operation"
	if op.Status.Cancel != nil {
		text += fmt.Sprintf("; cancellation was requested because %s", cancelReason(op))
	}
	text += "; check its outcome manually"
	finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationLost, appendDetail(text, failure.Text), now)
}

// finishUnconfirmed finishes an operation whose end the plugin did not confirm in time.
func finishUnconfirmed(op *v1alpha1.AsyncOperation, now time.Time) {
	cancel := op.Status.Cancel
	if cancel.Answer == v1alpha1.CancelAnswerRefused {
		finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonCancelRefused, appendDetail(fmt.Sprintf(
			"Cancellation was requested because %s, but the plugin refused; the operation may still be running", cancelReason(op)), cancel.Message), now)
		return
	}
	said := "the plugin never confirmed the end"
	if cancel.Answer == "" {
		said = "the plugin could not be reached"
	}
	finishOperation(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonCancelUnconfirmed, appendDetail(fmt.Sprintf(
		"Cancellation was requested because %s, but %s; the operation may still be running", cancelReason(op), said), cancel.Message), now)
}

// appendDetail appends the message of a plugin to our own.
func appendDetail(ours, theirs string) string {
	if theirs == "" {
		return ours
	}
	return ours + ": " + executor.OneLine(theirs)
}

// finishOperation records the outcome of an operation.
func finishOperation(op *v1alpha1.AsyncOperation, phase v1alpha1.AsyncOperationPhase, reason, text string, now time.Time) {
	at := v1alpha1.NewMicroTime(now)
	op.Status.Phase, op.Status.Message, op.Status.CompletionTimestamp = phase, text, &at
	op.Status.Duration = operationDuration(op, now).String()
	status, state := metav1.ConditionTrue, conditions.Current
	if phase != v1alpha1.AsyncOperationPhaseCompleted {
		status, state = metav1.ConditionFalse, conditions.Stalled
	}
	conditions.Set(op, v1alpha1.ConditionSucceeded, status, reason, text)
	conditions.SetSummary(op, state, reason, text)
}

func operationDuration(op *v1alpha1.AsyncOperation, now time.Time) time.Duration {
	return max(0, now.Sub(op.CreationTimestamp.Time)).Round(time.Second)
}

// setUnfinishedConditions sets the conditions of an unfinished operation.
func setUnfinishedConditions(op *v1alpha1.AsyncOperation, mem *Memory) {
	reason, text := v1alpha1.ReasonStarted, "Started; the plugin has not reported progress yet"
	if op.Status.Progress != nil {
		reason, text = v1alpha1.ReasonRunning, runningMessage(op.Status.Progress)
	}
	switch {
	case op.Status.Cancel != nil:
		reason, text = v1alpha1.ReasonCancelling, cancelingMessage(op, mem)
	case mem.pollFailure == nil:
	case !mem.pollFailure.Answered:
		reason, text = v1alpha1.ReasonUnreachable, appendDetail("The plugin cannot be reached; retrying", mem.pollFailure.Text)
	default:
		text = appendDetail("The plugin could not report progress; retrying", mem.pollFailure.Text)
	}
	op.Status.Message = text
	conditions.Set(op, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, text)
	conditions.SetSummary(op, conditions.InProgress, reason, text)
}

func runningMessage(p *v1alpha1.AsyncOperationProgress) string {
	text := "Running"
	if p.Summary != "" {
		text += ": " + p.Summary
	}
	if p.Description != "" {
		text += "; " + p.Description
	}
	return text
}

func cancelingMessage(op *v1alpha1.AsyncOperation, mem *Memory) string {
	cancel := op.Status.Cancel
	said, detail := "the plugin has not answered yet", cancel.Message
	switch {
	case cancel.Answer == v1alpha1.CancelAnswerAcknowledged:
		said = "the plugin has not confirmed the end yet"
	case cancel.Answer == v1alpha1.CancelAnswerRefused:
		said = "the plugin refused"
	case cancel.Message != "":
		said = "the plugin cannot be reached; retrying"
	}
	if mem.pollFailure != nil {
		detail = cmp.Or(detail, mem.pollFailure.Text)
	}
	return appendDetail(fmt.Sprintf("Canceling because %s; %s", cancelReason(op), said), detail)
}
