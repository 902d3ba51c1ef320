// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// reconcileUncommitted stores the log of a run that ended without a manifest, and releases its
// name. That happens in parallel with the PostBackup actions: a store that is down must not hold
// up clean-up.
func (r *Reconciler) reconcileUncommitted(ctx context.Context, s *scope) (bool, error) {
	b := s.Object
	if lifecycle.IsCompletedOrPartiallyFailed(b) || lifecycle.IsFinalized(b) || b.Status.StorageLocation == "" {
		return true, nil
	}
	why := lifecycle.OutcomeMessage(b)
	step, what, work := stepAbandon, "storing the log of the run", func(ctx context.Context, store *storage.Store, request backup.Request) error {
		return r.Runner.Abandon(ctx, store, request, why)
	}
	if !lifecycle.IsPlanned(b) {
		step, what, work = stepRelease, "releasing the name of the stored backup", r.Runner.Release
	}
	tidied := lifecycle.ExecuteStepWithStore(r.driver, s, step, r.newRunnerRequest, lifecycle.WithoutValue(work))
	switch {
	case tidied != nil && !lifecycle.IsPlanned(b): // nothing was stored, and releasing the name is attempted only once
	case lifecycle.AwaitStep(r.driver, s, step, what, tidied):
		s.CleanupPending = true
	case tidied.Err == nil:
		r.recordOutcomeFiles(ctx, b)
	}
	return true, nil
}

// reconcileFinalization stores the log of the Post actions and ends the run when nothing is owed.
func (r *Reconciler) reconcileFinalization(ctx context.Context, s *scope) (bool, error) {
	hasLog, ready := r.driver.AwaitPostActionLog(s, r.uploadPostActionLog)
	if !ready {
		return false, nil
	}
	r.recordStoredFiles(ctx, s, hasLog)
	r.driver.Finalize(s)
	return true, nil
}

// uploadPostActionLog uploads the log of the PostBackup actions.
func (r *Reconciler) uploadPostActionLog(s *scope) *lifecycle.Result[bool] {
	return lifecycle.ExecuteStepWithStore(r.driver, s, lifecycle.StepPostLog, r.newRunnerRequest, r.Runner.UploadPostActionLog)
}

// recordStoredFiles records where the files are stored.
func (r *Reconciler) recordStoredFiles(ctx context.Context, s *scope, postLog bool) {
	if !lifecycle.IsCompletedOrPartiallyFailed(s.Object) && !postLog {
		return
	}
	key := r.recordOutcomeFiles(ctx, s.Object)
	if postLog {
		s.Object.Status.Files.PostLog = key(storage.PostLogs)
	}
}

// recordOutcomeFiles records where the files are stored that exist once the outcome is known. It
// returns a function that returns the key of any file below the root of the location. The key is
// empty if the location does not exist.
func (r *Reconciler) recordOutcomeFiles(ctx context.Context, b *v1alpha1.Backup) (key func(storage.File) string) {
	prefix, there := r.driver.LocationPrefix(ctx, b)
	key = func(file storage.File) string {
		if !there {
			return ""
		}
		return storage.FileKey(prefix, b.Name, file)
	}
	files := &v1alpha1.BackupFiles{}
	if b.Status.Files != nil {
		files = b.Status.Files.DeepCopy()
	}
	files.Log, files.Results = key(storage.Logs), key(storage.Results)
	if lifecycle.IsCompletedOrPartiallyFailed(b) {
		files.Archive = key(storage.Contents)
	}
	b.Status.Files = files
	return key
}
