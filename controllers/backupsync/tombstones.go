// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"maps"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// updateTombstones records which of the stored backups have a Backup now. If such a Backup is
// removed later, it is not imported again.
func (l *locationSync) updateTombstones(ctx context.Context, listed map[string]bool) error {
	more := tombstone.Records{}
	for name, objects := range l.snapshot.backups {
		for _, b := range objects {
			if listed[name] && isVerified(b) {
				l.recordTombstone(more, name, b)
			}
		}
	}
	maps.Copy(more, l.importedBackups) // which are newer than the snapshot
	for name, value := range more {
		if known, noted := l.snapshot.tombstones[name]; noted && known == value {
			delete(more, name)
		}
	}
	if len(more) == 0 {
		return nil
	}
	err := tombstone.AddRecords(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name, more)
	if errors.Is(err, tombstone.ErrFull) {
		l.report.TombstoneProblem = err.Error()
		return nil
	}
	return err
}

// recordTombstone records a Backup, unless more is already known of its backup.
func (l *locationSync) recordTombstone(more tombstone.Records, name string, b *v1alpha1.Backup) {
	uid := creatorUID(b)
	_, noted := l.snapshot.tombstones[name]
	if (uid == "" && noted) || l.snapshot.tombstones.IsCreatedHere(name, uid) || more.IsCreatedHere(name, uid) {
		return
	}
	more.Add(name, uid, b.Spec.ImportedFrom == nil)
}

// setupFinishedBackupController adds the controller that records a Backup of this cluster as soon as
// it has finished: a user may remove it before the next sync.
func (r *Reconciler) setupFinishedBackupController(mgr ctrl.Manager) error {
	ends := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // the first sync records those
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.Backup)
			b, also := e.ObjectNew.(*v1alpha1.Backup)
			return ok && also && !isVerified(before) && isVerified(b) && b.Spec.ImportedFrom == nil
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("backupsync-seen").
		For(&v1alpha1.Backup{}, builder.WithPredicates(ends)).
		Complete(reconcile.Func(r.recordFinishedBackup))
}

// recordFinishedBackup records one Backup of this cluster.
func (r *Reconciler) recordFinishedBackup(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.Backup
	if err := r.Client.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isVerified(&b) || locationName(&b) == "" {
		return ctrl.Result{}, nil
	}
	one := tombstone.Records{}
	one.Add(b.StoredName(), creatorUID(&b), true)
	err := tombstone.AddRecords(ctx, r.Client, r.Reader, b.Namespace, locationName(&b), one)
	if err != nil && !errors.Is(err, tombstone.ErrFull) {
		return ctrl.Result{}, fmt.Errorf("recording Backup %s: %w", b.Name, err)
	}
	return ctrl.Result{}, nil
}
