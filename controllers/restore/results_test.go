// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// TestRecordOutcome_ResultsNotStored checks that the outcome of a Restore follows from its objects, and that
// results which cannot be stored are a warning.
func TestRecordOutcome_ResultsNotStored(t *testing.T) {
	notStored := func(kind error) error { return fmt.Errorf("%w: %w", restore.ErrResultsNotStored, kind) }
	failed := restore.RunResult{
		Counts: map[restore.Outcome]int{restore.Created: 1, restore.Failed: 1}, Errors: 1, Warnings: 4,
		Problems: results.Results{Errors: results.Problems{{Reason: "Forbidden", Message: "the token abcdefgh is refused"}}},
	}
	for name, tc := range map[string]struct {
		made     restore.RunResult
		err      error
		phase    v1alpha1.RunPhase
		stored   metav1.ConditionStatus
		warnings int64
		says     string
	}{
		"stored at once": {phase: v1alpha1.RunPhaseCompleted},
		"the store is full": {
			err: notStored(objectstore.ErrNoSpace), phase: v1alpha1.RunPhaseCompleted, stored: metav1.ConditionFalse, warnings: 1,
			says: "there was nothing to restore, 1 warning; what became of each object could not be stored: no space left",
		},
		"the store is read-only": {
			err: notStored(objectstore.ErrReadOnly), phase: v1alpha1.RunPhaseCompleted, stored: metav1.ConditionFalse, warnings: 1,
		},
		"the store does not answer": {
			err: notStored(objectstore.ErrUnavailable), phase: v1alpha1.RunPhaseCompleted, stored: metav1.ConditionUnknown, warnings: 1,
		},
		"an object failed, and the store is full": {
			made: failed, err: notStored(objectstore.ErrNoSpace), phase: v1alpha1.RunPhasePartiallyFailed, stored: metav1.ConditionFalse, warnings: 5,
			says: "; fix the cause and restore again, 5 warnings; what became of each object could not be stored: no space left in the object store",
		},
		"an object failed, and the reason is stored": {
			made: failed, phase: v1alpha1.RunPhasePartiallyFailed, warnings: 4, says: "1 created, 1 failed; 1 error: the token ",
		},
		"the restore was not completed": {made: failed, err: objectstore.ErrNoSpace, phase: v1alpha1.RunPhaseFailed, warnings: 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Redactor: redact.New(), Now: time.Now}}
			r.Redactor.AddValues("abcdefgh")
			r.driver = &lifecycle.Driver[*v1alpha1.Restore]{Dependencies: r.Dependencies, Kind: lifecycle.RestoreKind}
			s := &scope{Object: &v1alpha1.Restore{}}
			r.recordOutcome(s, &lifecycle.Result[restore.RunResult]{Value: tc.made, Err: tc.err})
			status := s.Object.Status
			if status.Phase != tc.phase || status.Warnings != tc.warnings {
				t.Errorf("%s with %d warnings, want %s with %d: %s", status.Phase, status.Warnings, tc.phase, tc.warnings, status.Message)
			}
			if !strings.Contains(status.Message, tc.says) || strings.Contains(status.Message, "abcdefgh") {
				t.Errorf("the message is %q, want %q in it and no secret", status.Message, tc.says)
			}
			c := conditions.Get(s.Object, v1alpha1.ConditionResultsStored)
			if (c == nil) != (tc.stored == "") || (c != nil && (c.Status != tc.stored || c.Reason != v1alpha1.ReasonResultsNotStored)) {
				t.Errorf("the condition is %+v, want %q", c, tc.stored)
			}
		})
	}
}

// TestRecordResultsStored checks that the message is reverted once the results are stored, unless
// storing them was given up.
func TestRecordResultsStored(t *testing.T) {
	for name, givenUp := range map[string]bool{"retried": false, "given up": true} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Redactor: redact.New()}}
			s := &scope{Object: &v1alpha1.Restore{}}
			r.recordItemCounts(&s.Object.Status, restore.RunResult{})
			r.recordResultsNotStored(s, v1alpha1.ReasonResultsNotStored, errors.New("the store is away"))
			r.recordResultsNotStored(s, v1alpha1.ReasonOperationsNotStored, errors.New("it is still away"))
			if s.Object.Status.Warnings != 1 {
				t.Errorf("%d warnings, want 1", s.Object.Status.Warnings)
			}
			s.RecordOutcome(outcomeForCounts(s), time.Now())
			if givenUp {
				recordResultsLost(s)
			} else {
				recordResultsStored(s.Object)
			}
			s.MarkFinalized()
			if says := strings.Contains(s.Object.Status.Message, "the store is away"); says != givenUp || hasLostResults(s.Object) != givenUp || hasUnstoredResults(s.Object) != givenUp {
				t.Errorf("the message is %q, the conditions are %+v", s.Object.Status.Message, s.Object.Status.Conditions)
			}
		})
	}
}
