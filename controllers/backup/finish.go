// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
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
	step, work := stepAbandon, func(ctx context.Context, store *store, request job.Request) (none, error) {
		return none{}, r.Job.Abandon(ctx, store.Store, request, why)
	}
	if !run.Planned(b) {
		step, work = stepRelease, func(ctx context.Context, store *store, request job.Request) (none, error) {
			return none{}, r.Job.Release(ctx, store.Store, request)
		}
	}
	switch tidied := inStore(r, s, step, work); {
	case tidied == nil:
		s.Left = true
	case tidied.Err == nil && run.Planned(b):
		b.Status.Files = r.files(ctx, b, b.Status.Files)
	case tidied.Err != nil && run.Planned(b):
		s.Left = r.driver.Repeat(s, step, "storing the log of the run", tidied.Err)
	}
	return true, nil
}

// storePostLog stores what the PostBackup actions logged.
func (r *Reconciler) storePostLog(s *scope) *run.Ended[bool] {
	return inStore(r, s, run.StepPostLog, func(ctx context.Context, store *store, request job.Request) (bool, error) {
		return r.Job.StorePostLog(ctx, store.Store, request)
	})
}

// name writes down what was stored where.
func (r *Reconciler) name(ctx context.Context, s *scope, postLog bool) {
	b := s.Object
	if run.Succeeded(b) || postLog {
		b.Status.Files = r.files(ctx, b, b.Status.Files)
	}
	if postLog {
		b.Status.Files.PostLog = r.key(ctx, b, job.PostLogs)
	}
}

// files names what was stored.
func (r *Reconciler) files(ctx context.Context, b *v1alpha1.Backup, known *v1alpha1.BackupFiles) *v1alpha1.BackupFiles {
	files := &v1alpha1.BackupFiles{}
	if known != nil {
		files = known.DeepCopy()
	}
	files.Log, files.Results = r.key(ctx, b, job.Logs), r.key(ctx, b, job.Results)
	if run.Succeeded(b) {
		files.Archive = r.key(ctx, b, job.Contents)
	}
	return files
}

// key returns where a file of the backup is, below the root of its location;
// empty if the location is gone.
func (r *Reconciler) key(ctx context.Context, b *v1alpha1.Backup, file job.File) string {
	var location v1alpha1.BackupStorageLocation
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Status.StorageLocation}, &location)
	if err != nil {
		return ""
	}
	return job.Key(location.Spec.Prefix, b.Name, file)
}
