// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// abandon keeps the log of a run that ended without a manifest, and gives its
// name back. It goes on beside the PostBackup actions: a store that is down must
// not hold up clean-up.
func (r *Reconciler) abandon(ctx context.Context, s *scope) (bool, error) {
	b := s.Object
	if run.Succeeded(b) || run.Settled(b) || b.Status.StorageLocation == "" {
		return true, nil
	}
	why := run.OutcomeMessage(b)
	step, work := stepAbandon, func(ctx context.Context, store *backupstore.Store, request job.Request) error {
		return r.Job.Abandon(ctx, store, request, why)
	}
	if !run.Planned(b) {
		step, work = stepRelease, r.Job.Release
	}
	switch tidied := run.InStore(r.driver, s, step, r.requestOf, run.Doing(work)); {
	case tidied == nil:
		s.Left = true
	case tidied.Err == nil && run.Planned(b):
		r.files(ctx, b)
	case tidied.Err != nil && run.Planned(b):
		s.Left = r.driver.Repeat(s, step, "storing the log of the run", tidied.Err)
	}
	return true, nil
}

// storePostLog stores what the PostBackup actions logged.
func (r *Reconciler) storePostLog(s *scope) *run.Ended[bool] {
	return run.InStore(r.driver, s, run.StepPostLog, r.requestOf, r.Job.StorePostLog)
}

// name writes down what was stored where.
func (r *Reconciler) name(ctx context.Context, s *scope, postLog bool) {
	if !run.Succeeded(s.Object) && !postLog {
		return
	}
	key := r.files(ctx, s.Object)
	if postLog {
		s.Object.Status.Files.PostLog = key(backupstore.PostLogs)
	}
}

// files writes down where the files are that are there when the outcome is known,
// and returns what names others: the key below the root of the location, which is
// empty if that is gone.
func (r *Reconciler) files(ctx context.Context, b *v1alpha1.Backup) (key func(backupstore.File) string) {
	prefix, there := r.driver.Prefix(ctx, b)
	key = func(file backupstore.File) string {
		if !there {
			return ""
		}
		return backupstore.Key(prefix, b.Name, file)
	}
	files := &v1alpha1.BackupFiles{}
	if b.Status.Files != nil {
		files = b.Status.Files.DeepCopy()
	}
	files.Log, files.Results = key(backupstore.Logs), key(backupstore.Results)
	if run.Succeeded(b) {
		files.Archive = key(backupstore.Contents)
	}
	b.Status.Files = files
	return key
}
