// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// started returns what the engine tells of operations that actions started.
func (r *Reconciler) started(s *scope) func(context.Context, restore.Operation) error {
	record := r.driver.OperationRecorder(s)
	return func(ctx context.Context, op restore.Operation) error {
		return record(ctx, run.StartedOperation{
			Kind: op.Kind, Action: op.Action, Plugin: op.Plugin, ID: op.ID, PollInterval: op.PollInterval,
			Item: v1alpha1.OperationItem{
				Group: op.Resource.Group, Resource: op.Resource.Resource, Namespace: op.Namespace, Name: op.Name,
			},
		})
	}
}

// finalize has what became of the operations stored, and records the outcome. The
// objects are restored, so a store that is silent for a while must not undo that.
func (r *Reconciler) finalize(s *scope) bool {
	s.Finalizing("Storing what became of the operations: " + s.OperationsSentence())
	ended, started := s.EndedOperations(), 0
	if counts := s.Object.Status.Operations; counts != nil {
		started = int(counts.Attempted)
	}
	stored := run.InStore(r.driver, s, stepFinalize, r.requestOf, func(ctx context.Context, store *backupstore.Store, request job.Request) (int, error) {
		request.Operations = started
		return r.Job.Finalize(ctx, store, request, ended)
	})
	if stored == nil {
		return false
	}
	s.Object.Status.Errors += int64(stored.Value)
	switch {
	case s.Stopping():
		o := s.CancelledOutcome()
		o.Message += "; " + sum(s.Object.Status.Counts, false) + " before" + s.DescribeOperations()
		s.Decide(o, r.Now())
	case stored.Err == nil:
		s.Decide(outcome(s), r.Now())
	case !errors.Is(stored.Err, job.ErrNoReport) && r.driver.RepeatWork(s, stepFinalize, "storing what became of the operations", stored.Err):
		return false
	default:
		o := outcome(s)
		o.Phase, o.Reason = run.PhaseFailed, v1alpha1.ReasonFailed
		o.Message += "; what became of the operations could not be stored: " + r.Redactor.String(stored.Err.Error())
		s.Decide(o, r.Now())
	}
	return true
}
