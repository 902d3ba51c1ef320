// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
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
	tidied := inStore(r, s, stepAbandon, func(ctx context.Context, store *store, request job.Request) (none, error) {
		return none{}, r.Job.Abandon(ctx, store.Store, request, why)
	})
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
	return inStore(r, s, run.StepPostLog, func(ctx context.Context, store *store, request job.Request) (bool, error) {
		return r.Job.StorePostLog(ctx, store.Store, request)
	})
}

// name writes down what was stored where.
func (r *Reconciler) name(ctx context.Context, s *scope, postLog bool) {
	o := s.Object
	var location v1alpha1.BackupStorageLocation
	key := client.ObjectKey{Namespace: o.Namespace, Name: o.Status.StorageLocation}
	if !run.Planned(o) || r.Client.Get(ctx, key, &location) != nil {
		return
	}
	at := func(file job.File) string { return job.Key(location.Spec.Prefix, o.Name, file) }
	o.Status.Files = &v1alpha1.RestoreFiles{
		Log: at(job.Logs), Results: at(job.Results), ResourceList: at(job.ResourceList),
	}
	if postLog {
		o.Status.Files.PostLog = at(job.PostLogs)
	}
}
