// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// What the API allows.
const (
	maxMessage = 2048
	// MaxList is how long the lists of messages in a status may be.
	MaxList = 64
)

// Waiting says what a run that has not begun waits for.
func (s *Scope[T]) Waiting(reason, message string) {
	s.Object.SetPhase(PhaseNew)
	s.undecided(reason, message)
}

// Running says what a run that has begun does now.
func (s *Scope[T]) Running(reason, message string) {
	s.Object.SetPhase(PhaseInProgress)
	s.undecided(reason, message)
}

func (s *Scope[T]) undecided(reason, message string) {
	message = Short(message)
	s.Object.Run().Message = message
	conditions.Set(s.Object, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	conditions.Summary(s.Object, conditions.InProgress, reason, message)
}

// Finishing says what a decided run still does. The outcome stays in front: it
// is what people ask for.
func (s *Scope[T]) Finishing(reason, message string) {
	s.Object.Run().Message = Short(OutcomeMessage(s.Object) + "; " + message)
	conditions.Summary(s.Object, conditions.InProgress, reason, Short(message))
}

// OutcomeMessage returns what was said when the outcome was known.
func OutcomeMessage(o conditions.Object) string {
	if c := conditions.Get(o, v1alpha1.ConditionSucceeded); c != nil {
		return c.Message
	}
	return ""
}

// Outcome is how a run ends.
type Outcome struct {
	Phase, Reason, Message string
}

// CancelledOutcome is the outcome of a run that a person stopped.
func (s *Scope[T]) CancelledOutcome() Outcome {
	return Outcome{PhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled: " + s.WhyStopping()}
}

// Decide records the outcome. It is final.
func (s *Scope[T]) Decide(o Outcome, now time.Time) {
	at := metav1.NewTime(now)
	status := s.Object.Run()
	s.Object.SetPhase(o.Phase)
	status.Message, status.CompletionTimestamp = Short(o.Message), &at
	succeeded := metav1.ConditionFalse
	if o.Phase == PhaseCompleted {
		succeeded = metav1.ConditionTrue
	}
	if !Succeeded(s.Object) && o.Phase != PhaseFailedValidation {
		status.FailureReason = status.Message
	}
	conditions.Set(s.Object, v1alpha1.ConditionSucceeded, succeeded, o.Reason, status.Message)
	conditions.Summary(s.Object, conditions.InProgress, o.Reason, status.Message)
}

// Invalid records everything that is wrong at once.
func (s *Scope[T]) Invalid(errs []string, now time.Time) {
	s.Object.Run().ValidationErrors = shortList(errs)
	message := errs[0]
	if len(errs) > 1 {
		message = fmt.Sprintf("%d things must be changed: %s", len(errs), strings.Join(errs, "; "))
	}
	s.Decide(Outcome{PhaseFailedValidation, v1alpha1.ReasonFailedValidation, message}, now)
}

// Done ends the work on a run: the summary is what the outcome was.
func (s *Scope[T]) Done() {
	succeeded := conditions.Get(s.Object, v1alpha1.ConditionSucceeded)
	message := succeeded.Message
	if post := conditions.Get(s.Object, v1alpha1.ConditionPostActionsSucceeded); post != nil && post.Status == metav1.ConditionFalse {
		message = Short(message + "; " + post.Message)
	}
	s.Object.Run().Message = message
	state := conditions.Stalled
	if s.Object.GetPhase() == PhaseCompleted {
		state = conditions.Current
	}
	conditions.Summary(s.Object, state, succeeded.Reason, message)
}

// shortList cuts a list of messages, and each of them, to what the API allows.
func shortList(messages []string) []string {
	list := make([]string, 0, min(len(messages), MaxList))
	for i, message := range messages {
		if i == MaxList-1 && len(messages) > MaxList {
			return append(list, fmt.Sprintf("and %d more", len(messages)-i))
		}
		list = append(list, Short(message))
	}
	return list
}

// Short cuts a message to what the API allows, between characters.
func Short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}

// Count says how many there are of something.
func Count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
