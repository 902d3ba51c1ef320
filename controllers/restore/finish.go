// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// abandon keeps the log of a run that did not restore. It goes on beside the
// PostRestore actions: a store that is down must not hold up clean-up.
func (r *Reconciler) abandon(_ context.Context, s *scope) (bool, error) {
	o := s.Object
	if run.Succeeded(o) || run.Settled(o) || !run.Planned(o) {
		return true, nil
	}
	why := run.OutcomeMessage(o)
	tidied := run.InStore(r.driver, s, stepAbandon, r.requestOf, run.Doing(
		func(ctx context.Context, store *backupstore.Store, request job.Request) error {
			return r.Job.Abandon(ctx, store, request, why)
		}))
	switch {
	case tidied == nil:
		s.Left = true
	case tidied.Err != nil:
		s.Left = r.driver.Repeat(s, stepAbandon, "storing the log of the run", tidied.Err)
	}
	return true, nil
}

// storePostLog stores what the PostRestore actions logged.
func (r *Reconciler) storePostLog(s *scope) *run.Ended[bool] {
	return run.InStore(r.driver, s, run.StepPostLog, r.requestOf, r.Job.StorePostLog)
}

// name writes down what was stored where.
func (r *Reconciler) name(ctx context.Context, s *scope, postLog bool) {
	o := s.Object
	prefix, there := r.driver.Prefix(ctx, o)
	if !run.Planned(o) || !there {
		return
	}
	key := func(file backupstore.RestoreFile) string { return backupstore.RestoreKey(prefix, o.Name, file) }
	o.Status.Files = &v1alpha1.RestoreFiles{
		Log: key(backupstore.RestoreLogs), Results: key(backupstore.RestoreResults), ResourceList: key(backupstore.RestoreResourceList),
	}
	if postLog {
		o.Status.Files.PostLog = key(backupstore.RestorePostLogs)
	}
}
