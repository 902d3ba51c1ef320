// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

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
	maxList    = 64
)

// waiting says what a Backup that has not begun waits for.
func (s *scope) waiting(reason, message string) {
	s.backup.Status.Phase = v1alpha1.BackupPhaseNew
	s.undecided(reason, message)
}

// running says what a Backup that has begun does now.
func (s *scope) running(reason, message string) {
	s.backup.Status.Phase = v1alpha1.BackupPhaseInProgress
	s.undecided(reason, message)
}

func (s *scope) undecided(reason, message string) {
	message = short(message)
	s.backup.Status.Message = message
	conditions.Set(s.backup, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
	conditions.Summary(s.backup, conditions.InProgress, reason, message)
}

// finishing says what a decided Backup still does. The outcome stays in front:
// it is what people ask for.
func (s *scope) finishing(reason, message string) {
	s.backup.Status.Message = short(outcomeMessage(s.backup) + "; " + message)
	conditions.Summary(s.backup, conditions.InProgress, reason, short(message))
}

// outcomeMessage returns what was said when the outcome was known.
func outcomeMessage(b *v1alpha1.Backup) string {
	if c := conditions.Get(b, v1alpha1.ConditionSucceeded); c != nil {
		return c.Message
	}
	return ""
}

// outcome is how a run ends.
type outcome struct {
	phase   v1alpha1.BackupPhase
	reason  string
	message string
}

// decide records the outcome. It is final.
func (s *scope) decide(o outcome, now time.Time) {
	at := metav1.NewTime(now)
	status := &s.backup.Status
	status.Phase, status.Message, status.CompletionTimestamp = o.phase, short(o.message), &at
	succeeded := metav1.ConditionFalse
	if o.phase == v1alpha1.BackupPhaseCompleted {
		succeeded = metav1.ConditionTrue
	}
	if !stored(s.backup) {
		status.FailureReason = status.Message
	}
	conditions.Set(s.backup, v1alpha1.ConditionSucceeded, succeeded, o.reason, status.Message)
	conditions.Summary(s.backup, conditions.InProgress, o.reason, status.Message)
}

// invalid records everything that is wrong at once.
func (s *scope) invalid(errs []string, now time.Time) {
	status := &s.backup.Status
	for i, err := range errs {
		if i == maxList-1 && len(errs) > maxList {
			err = fmt.Sprintf("and %d more", len(errs)-i)
			status.ValidationErrors = append(status.ValidationErrors, err)
			break
		}
		status.ValidationErrors = append(status.ValidationErrors, short(err))
	}
	message := errs[0]
	if len(errs) > 1 {
		message = fmt.Sprintf("%d things must be changed: %s", len(errs), strings.Join(errs, "; "))
	}
	s.decide(outcome{v1alpha1.BackupPhaseFailedValidation, v1alpha1.ReasonFailedValidation, message}, now)
	status.FailureReason = ""
}

// done ends the work on a Backup: the summary is what the outcome was.
func (s *scope) done() {
	b := s.backup
	succeeded := conditions.Get(b, v1alpha1.ConditionSucceeded)
	b.Status.Message = succeeded.Message
	if failed := conditions.Get(b, v1alpha1.ConditionPostActionsSucceeded); failed != nil && failed.Status == metav1.ConditionFalse {
		b.Status.Message = short(succeeded.Message + "; " + failed.Message)
	}
	state := conditions.Stalled
	if b.Status.Phase == v1alpha1.BackupPhaseCompleted {
		state = conditions.Current
	}
	conditions.Summary(b, state, succeeded.Reason, b.Status.Message)
}

// short cuts a message to what the API allows, between characters.
func short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}
