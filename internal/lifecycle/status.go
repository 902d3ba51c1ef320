// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// Limits of the API.
const (
	maxMessageBytes = 2048
	// MaxMessages is the maximum length of a list of messages in a status.
	MaxMessages = 64
)

// MarkWaiting records what a run that has not started waits for.
func (s *Scope[T]) MarkWaiting(reason, message string) {
	s.Object.SetPhase(v1alpha1.RunPhaseNew)
	s.markOutcomeUnknown(reason, message)
}

// MarkRunning records what a run that has started does now.
func (s *Scope[T]) MarkRunning(reason, message string) {
	s.Object.SetPhase(v1alpha1.RunPhaseInProgress)
	s.markOutcomeUnknown(reason, message)
}

func (s *Scope[T]) markOutcomeUnknown(reason, message string) {
	message = TruncateMessage(message)
	s.Object.Run().Message = message
	conditions.Set(s.Object, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	conditions.SetSummary(s.Object, conditions.InProgress, reason, message)
}

// ReportRemainingWork records what a finished run still does. The message starts with the
// outcome, which is what users look for.
func (s *Scope[T]) ReportRemainingWork(reason, message string) {
	message = strings.Join(append([]string{message}, s.unfinishedSteps...), "; ")
	s.Object.Run().Message = TruncateMessage(OutcomeMessage(s.Object) + "; " + message)
	conditions.SetSummary(s.Object, conditions.InProgress, reason, TruncateMessage(message))
}

// reportUnfinishedStep records which step after the outcome holds a finished run, in addition to
// other remaining work.
func (s *Scope[T]) reportUnfinishedStep(message string) {
	s.ReportRemainingWork(v1alpha1.ReasonStoringLogs, message)
	s.unfinishedSteps = append(s.unfinishedSteps, message)
}

// OutcomeMessage returns the message of the outcome, and which results are not stored.
func OutcomeMessage(o conditions.Object) string {
	c := conditions.Get(o, v1alpha1.ConditionSucceeded)
	if c == nil {
		return ""
	}
	if stored := conditions.Get(o, v1alpha1.ConditionResultsStored); stored != nil && stored.Status != metav1.ConditionTrue {
		return c.Message + "; " + stored.Message
	}
	return c.Message
}

// Outcome is the outcome of a run.
type Outcome struct {
	Phase           v1alpha1.RunPhase
	Reason, Message string
}

// CancelledOutcome returns the outcome of a run that was canceled by a user. If its deadline
// ended the run, the outcome is a failure.
func (s *Scope[T]) CancelledOutcome() Outcome {
	if s.IsDeadlineExceeded() && !s.isCancelRequestedByUser() {
		return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonDeadlineExceeded, "Failed: " + s.CancelReason() + "; " + s.kind.timeoutHint()}
	}
	return Outcome{v1alpha1.RunPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled: " + s.CancelReason()}
}

// RecordOutcome records the outcome, which is final.
func (s *Scope[T]) RecordOutcome(o Outcome, now time.Time) {
	at := metav1.NewTime(now)
	status := s.Object.Run()
	s.Object.SetPhase(o.Phase)
	status.CompletionTimestamp = &at
	succeeded := metav1.ConditionFalse
	if o.Phase == v1alpha1.RunPhaseCompleted {
		succeeded = metav1.ConditionTrue
	}
	conditions.Set(s.Object, v1alpha1.ConditionSucceeded, succeeded, o.Reason, TruncateMessage(o.Message))
	status.Message = TruncateMessage(OutcomeMessage(s.Object))
	if !IsCompletedOrPartiallyFailed(s.Object) && o.Phase != v1alpha1.RunPhaseFailedValidation {
		status.FailureReason = status.Message
	}
	conditions.SetSummary(s.Object, conditions.InProgress, o.Reason, status.Message)
}

// FailValidation records all validation errors at once.
func (s *Scope[T]) FailValidation(errs []string, now time.Time) {
	s.Object.Run().ValidationErrors = truncateMessages(errs)
	message := errs[0]
	if len(errs) > 1 {
		message = fmt.Sprintf("%d problems must be fixed: %s", len(errs), strings.Join(errs, "; "))
	}
	s.RecordOutcome(Outcome{v1alpha1.RunPhaseFailedValidation, v1alpha1.ReasonFailedValidation, message}, now)
}

// MarkFinalized records that no work is left. The summary conditions show the outcome.
func (s *Scope[T]) MarkFinalized() { SummarizeOutcome(s.Object) }

// SummarizeOutcome sets the message and the summary conditions of a finalized run from its other conditions. Missing
// data is in the summary: tools that know only kstatus would report the backup as good.
func SummarizeOutcome(o Object) {
	state, reason := conditions.Stalled, conditions.Get(o, v1alpha1.ConditionSucceeded).Reason
	if o.GetPhase() == v1alpha1.RunPhaseCompleted {
		state = conditions.Current
	}
	message := OutcomeMessage(o)
	for _, conditionType := range []string{v1alpha1.ConditionPostActionsSucceeded, v1alpha1.ConditionDataAvailable} {
		if c := conditions.Get(o, conditionType); c != nil && c.Status == metav1.ConditionFalse {
			message = TruncateMessage(message) + "; " + c.Message
			if conditionType == v1alpha1.ConditionDataAvailable {
				state, reason = conditions.Stalled, c.Reason
			}
		}
	}
	message = TruncateMessage(message)
	o.Run().Message = message
	if b, isBackup := o.(*v1alpha1.Backup); isBackup {
		b.Status.Message = AppendExpirationNote(message, b)
	}
	conditions.SetSummary(o, state, reason, message)
}

// conditionsObject is an object of the API with conditions.
type conditionsObject interface {
	client.Object
	conditions.Object
}

// ObserveGeneration records the generation of a finished object whose spec was changed later. The change
// has no effect, and the outcome stays: without the record, the object would look unreconciled.
func ObserveGeneration(ctx context.Context, c client.Client, object conditionsObject) error {
	if object.GetDeletionTimestamp() != nil || *object.ObservedGeneration() == object.GetGeneration() {
		return nil
	}
	patch := client.MergeFromWithOptions(deepCopyOf(object), client.MergeFromWithOptimisticLock{})
	conditions.ObserveGeneration(object)
	if err := c.Status().Patch(ctx, object, patch); ignoreConflictAndNotFound(err) != nil {
		return fmt.Errorf("writing the observed generation of %s: %w", object.GetName(), err)
	}
	return nil
}

// truncateMessages truncates a list of messages, and each message, to the limits of the API.
func truncateMessages(messages []string) []string {
	list := make([]string, 0, min(len(messages), MaxMessages))
	for i, message := range messages {
		if i == MaxMessages-1 && len(messages) > MaxMessages {
			return append(list, fmt.Sprintf("and %d more", len(messages)-i))
		}
		list = append(list, TruncateMessage(message))
	}
	return list
}

// TruncateMessage truncates a message to the limit of the API, between characters.
func TruncateMessage(message string) string {
	return text.Truncate(message, maxMessageBytes)
}
