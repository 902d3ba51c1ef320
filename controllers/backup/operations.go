// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"slices"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// startFinalize starts adding the post-operation items to the archive and committing it. It
// returns the result when that has ended. Failures are retried, to keep hours of work when a
// store does not respond for a while.
func (r *Reconciler) startFinalize(s *scope) *lifecycle.Result[backup.Result] {
	if s.IsCancelRequested() && r.driver.CancelSteps(s, stepFinalize) {
		s.SetFinalizingPhase("Canceling before the archive is complete")
		return nil
	}
	s.SetFinalizingPhase("Completing the archive: " + s.OperationsMessage())
	made := lifecycle.ExecuteStepWithStore(r.driver, s, stepFinalize, r.newRunnerRequest, r.newFinalizeStep(s))
	if made == nil || made.Err == nil || s.IsCancelRequested() || errors.Is(made.Err, backup.ErrNoDraft) {
		return made
	}
	if r.driver.RetryFor(s, stepFinalize, "completing the archive", made.Err) {
		return nil
	}
	return made
}

// newFinalizeStep returns the work of the step. If the run is being canceled after the operator
// was interrupted, the work only checks whether the archive was committed already.
func (r *Reconciler) newFinalizeStep(s *scope) func(context.Context, *storage.Store, backup.Request) (backup.Result, error) {
	if s.IsCancelRequested() {
		return r.Runner.FindCommitted
	}
	ended, planned := s.ToVeleroOperations(), s.Object.Status.ItemActions
	if !slices.ContainsFunc(s.Operations, func(o v1alpha1.AsyncOperation) bool { return len(o.Spec.PostOperationItems) > 0 }) {
		planned = nil // no action is called
	}
	return func(ctx context.Context, store *storage.Store, request backup.Request) (backup.Result, error) {
		if err := lifecycle.WaitForPlugins(ctx, r.Client, r.Actions, planned); err != nil {
			return backup.Result{}, err
		}
		return r.Runner.Finalize(ctx, store, request, ended)
	}
}
