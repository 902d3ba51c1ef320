// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// storeOperationResults stores the results of the operations, and records the outcome. The
// objects are restored already, so a store that does not respond for a while must not fail the
// Restore.
func (r *Reconciler) storeOperationResults(s *scope) bool {
	s.SetFinalizingPhase("Storing the results of the operations: " + s.OperationsMessage())
	ended, started := s.ToVeleroOperations(), 0
	if counts := s.Object.Status.Operations; counts != nil {
		started = int(counts.Attempted)
	}
	stored := lifecycle.ExecuteStepWithStore(r.driver, s, stepFinalize, r.newRunnerRequest, func(ctx context.Context, store *storage.Store, request restore.RunRequest) (int, error) {
		request.Operations = started
		return r.Runner.Finalize(ctx, store, request, ended)
	})
	if stored == nil {
		return false
	}
	hopeless := errors.Is(stored.Err, restore.ErrResultsUnreadable) || objectstore.IsUnwritable(stored.Err)
	if stored.Err != nil && !s.IsCancelRequested() && !hopeless &&
		r.driver.RetryFor(s, stepFinalize, "storing the results of the operations", stored.Err) {
		return false
	}
	failures := restore.OperationFailures(ended, started)
	s.Object.Status.Errors += int64(failures.ErrorCount)
	lifecycle.AddProblems(&s.Object.Status.RunStatus, failures, r.Redactor)
	switch {
	case s.IsCancelRequested():
		o := s.CancelledOutcome()
		o.Message += "; " + describeCounts(s.Object.Status.Counts, false) + " before" + s.OperationsOutcomeText()
		s.RecordOutcome(o, r.Now())
	case stored.Err == nil:
		recordResultsStored(s.Object)
		s.RecordOutcome(outcomeForCounts(s), r.Now())
	case !lifecycle.IsCrashed(stored.Err):
		r.recordResultsNotStored(s, v1alpha1.ReasonOperationsNotStored, stored.Err)
		recordResultsLost(s)
		s.RecordOutcome(outcomeForCounts(s), r.Now())
	default: // a user has to find out what is wrong with the operator
		o := outcomeForCounts(s)
		o.Phase, o.Reason = v1alpha1.RunPhaseFailed, v1alpha1.ReasonFailed
		o.Message += "; the results of the operations could not be stored: " + r.Redactor.String(stored.Err.Error())
		s.RecordOutcome(o, r.Now())
	}
	return true
}
