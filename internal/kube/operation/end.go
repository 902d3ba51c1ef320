// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// completed ends an operation of which the plugin said that it has ended.
func completed(op *v1alpha1.AsyncOperation, mem *Memory, told *item.Progress, now time.Time) {
	cancel := op.Status.Cancel
	failed := told.Err != "" && !told.Cancelled
	refused := cancel != nil && cancel.Answer == v1alpha1.CancelAnswerRefused
	switch {
	case cancel == nil && told.Cancelled:
		end(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationFailed,
			sentence("The plugin says that it was cancelled, which was not asked for here", told.Err), now)
	case told.Cancelled, failed && cancel != nil && mem.asked && !refused:
		confirmed(op, now)
	case failed && refused && cancel.Cause != v1alpha1.CancelCauseRequested:
		end(op, v1alpha1.AsyncOperationPhaseFailed, endOf(cancel.Cause), sentence("It failed after "+why(op), told.Err), now)
	case failed:
		end(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationFailed, executor.OneLine(told.Err), now)
	case cancel != nil:
		end(op, v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.ReasonCompleted,
			fmt.Sprintf("Completed after %s; it was to be cancelled because %s, and was done before", took(op, now), why(op)), now)
	default:
		end(op, v1alpha1.AsyncOperationPhaseCompleted, v1alpha1.ReasonCompleted,
			fmt.Sprintf("Completed after %s", took(op, now)), now)
	}
}

// confirmed ends an operation that ended because of its cancel.
func confirmed(op *v1alpha1.AsyncOperation, now time.Time) {
	cause := op.Status.Cancel.Cause
	if cause == v1alpha1.CancelCauseRequested {
		text := fmt.Sprintf("Cancelled after %s", took(op, now))
		end(op, v1alpha1.AsyncOperationPhaseCancelled, v1alpha1.ReasonCancelled, sentence(text, op.Spec.CancelReason), now)
		return
	}
	end(op, v1alpha1.AsyncOperationPhaseFailed, endOf(cause), fmt.Sprintf("It was cancelled because %s", why(op)), now)
}

// endOf is the reason of an operation that was cancelled for a cause of our own.
func endOf(cause v1alpha1.CancelCause) string {
	if cause == v1alpha1.CancelCauseStalled {
		return v1alpha1.ReasonOperationStalled
	}
	return v1alpha1.ReasonTimedOut
}

// lost ends an operation that the plugin does not know.
func lost(op *v1alpha1.AsyncOperation, failure *Failure, now time.Time) {
	text := "The plugin does not know the operation any more"
	if op.Status.Cancel != nil {
		text += fmt.Sprintf("; it was being cancelled because %s", why(op))
	}
	text += "; look yourself what became of it"
	end(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonOperationLost, sentence(text, failure.Text), now)
}

// unconfirmed ends an operation whose end the plugin did not confirm in time.
func unconfirmed(op *v1alpha1.AsyncOperation, now time.Time) {
	cancel := op.Status.Cancel
	if cancel.Answer == v1alpha1.CancelAnswerRefused {
		end(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonCancelRefused, sentence(fmt.Sprintf(
			"It was to be cancelled because %s, and the plugin refused: it may still go on there", why(op)), cancel.Message), now)
		return
	}
	said := "the plugin never said that it ended"
	if cancel.Answer == "" {
		said = "the plugin could not be asked"
	}
	end(op, v1alpha1.AsyncOperationPhaseFailed, v1alpha1.ReasonCancelUnconfirmed, sentence(fmt.Sprintf(
		"It was to be cancelled because %s, and %s: it may still go on there", why(op), said), cancel.Message), now)
}

// sentence puts what somebody else said behind our own words.
func sentence(ours, theirs string) string {
	if theirs == "" {
		return ours
	}
	return ours + ": " + executor.OneLine(theirs)
}

// end makes an operation terminal.
func end(op *v1alpha1.AsyncOperation, phase v1alpha1.AsyncOperationPhase, reason, text string, now time.Time) {
	at := metav1.NewTime(now)
	op.Status.Phase, op.Status.Message, op.Status.CompletionTimestamp = phase, text, &at
	op.Status.Duration = took(op, now).String()
	status, state := metav1.ConditionTrue, conditions.Current
	if phase != v1alpha1.AsyncOperationPhaseCompleted {
		status, state = metav1.ConditionFalse, conditions.Stalled
	}
	conditions.Set(op, v1alpha1.ConditionSucceeded, status, reason, text)
	conditions.Summary(op, state, reason, text)
}

func took(op *v1alpha1.AsyncOperation, now time.Time) time.Duration {
	return max(0, now.Sub(op.CreationTimestamp.Time)).Round(time.Second)
}

// describe says how an operation stands that has not ended.
func describe(op *v1alpha1.AsyncOperation, mem *Memory) {
	reason, text := v1alpha1.ReasonStarted, "Started; the plugin has not told anything yet"
	if op.Status.Progress != nil {
		reason, text = v1alpha1.ReasonRunning, running(op.Status.Progress)
	}
	switch {
	case op.Status.Cancel != nil:
		reason, text = v1alpha1.ReasonCancelling, cancelling(op, mem)
	case mem.failure == nil:
	case !mem.failure.Answered:
		reason, text = v1alpha1.ReasonUnreachable, sentence("The plugin cannot be reached, and is asked again", mem.failure.Text)
	default:
		text = sentence("The plugin could not say how far it is, and is asked again", mem.failure.Text)
	}
	op.Status.Message = text
	conditions.Set(op, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, text)
	conditions.Summary(op, conditions.InProgress, reason, text)
}

func running(p *v1alpha1.AsyncOperationProgress) string {
	text := "Running"
	if p.Summary != "" {
		text += ": " + p.Summary
	}
	if p.Description != "" {
		text += "; " + p.Description
	}
	return text
}

func cancelling(op *v1alpha1.AsyncOperation, mem *Memory) string {
	cancel := op.Status.Cancel
	said, detail := "the plugin has not answered yet", cancel.Message
	switch {
	case cancel.Answer == v1alpha1.CancelAnswerAcknowledged:
		said = "the plugin has not confirmed the end yet"
	case cancel.Answer == v1alpha1.CancelAnswerRefused:
		said = "the plugin refused"
	case cancel.Message != "":
		said = "the plugin cannot be reached, and is asked again"
	}
	if mem.failure != nil {
		detail = cmp.Or(detail, mem.failure.Text)
	}
	return sentence(fmt.Sprintf("Cancelling because %s; %s", why(op), said), detail)
}
