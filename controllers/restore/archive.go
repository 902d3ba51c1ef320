// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"slices"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// reconcileVerification downloads and verifies the archive before the first PreRestore action is
// called: an archive that cannot be restored must not leave anything to undo. The scratch file
// is kept for the restore in this process. If another process takes over after actions have
// started, the restore downloads the archive again. Without such actions, the restore itself
// verifies the archive before it writes.
func (r *Reconciler) reconcileVerification(ctx context.Context, s *scope) (bool, error) {
	if lifecycle.IsFinished(s.Object) {
		r.Runner.ReleaseArchive(string(s.Object.UID)) // owed clean-up may hold the run for a long time
		return true, nil
	}
	if lifecycle.HasProcessedItems(s.Object) || len(s.Pre) == 0 || slices.ContainsFunc(s.Pre, isHookRunRequested) {
		return true, nil
	}
	r.driver.ReacquireSlot(s) // slots limit what is in the scratch directory, also after a restart
	if s.IsCancelRequested() {
		busy := r.driver.CancelSteps(s, stepVerify)
		if busy {
			s.MarkRunning(v1alpha1.ReasonCancelling, "Canceling; no action has started")
		}
		return !busy, nil
	}
	if !r.driver.HasStepStarted(s, stepVerify) {
		if admission, err := r.driver.AdmitAttempt(ctx, s, stepVerify); admission == lifecycle.AttemptHeld {
			return false, err
		}
	}
	r.driver.EnforceWorkTimeout(s, stepVerify, "restore")
	source := r.newBackupSource(s)
	verified := lifecycle.ExecuteStepWithStore(r.driver, s, stepVerify, r.newRunnerRequest, lifecycle.WithoutValue(
		func(ctx context.Context, store *storage.Store, request restore.RunRequest) (err error) {
			if request.Origin, err = source.readOrigin(ctx, r.Client); err != nil {
				return err
			}
			return r.Runner.VerifyArchive(ctx, store, request)
		}))
	switch {
	case verified == nil:
		s.MarkRunning(v1alpha1.ReasonVerifyingArchive, "Downloading and verifying the archive")
		return false, nil
	case verified.Err != nil:
		r.recordFailedOutcome(s, &lifecycle.Result[restore.RunResult]{Err: verified.Err})
	}
	return true, nil
}

// isHookRunRequested reports whether a PreRestore action was requested to run or to be canceled.
func isHookRunRequested(run *v1alpha1.HookRun) bool {
	return run.Spec.DesiredState != v1alpha1.HookDesiredStateWait || run.Status.StartTimestamp != nil
}
