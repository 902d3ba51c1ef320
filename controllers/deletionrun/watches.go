// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// backupToDeletionRuns returns the unfinished DeletionRuns of a Backup.
func (r *Reconciler) backupToDeletionRuns(ctx context.Context, backup client.Object) []reconcile.Request {
	return r.listUnfinishedRequests(ctx, backup.GetNamespace(), func(d *v1alpha1.DeletionRun) bool {
		return backup.GetName() == d.Spec.BackupName || backup.GetName() == d.Status.BackupName
	})
}

// restoreToDeletionRuns returns the DeletionRuns that wait for a Restore.
func (r *Reconciler) restoreToDeletionRuns(ctx context.Context, object client.Object) []reconcile.Request {
	restore, ok := object.(*v1alpha1.Restore)
	if !ok || !lifecycle.IsFinished(restore) {
		return nil
	}
	return r.listUnfinishedRequests(ctx, restore.Namespace, func(d *v1alpha1.DeletionRun) bool { return !lifecycle.IsPlanned(d) && usesBackup(restore, d) })
}

// deletionRunToSiblings returns the DeletionRuns that wait for another one.
func (r *Reconciler) deletionRunToSiblings(ctx context.Context, object client.Object) []reconcile.Request {
	other, ok := object.(*v1alpha1.DeletionRun)
	if !ok || !lifecycle.IsFinished(other) {
		return nil
	}
	return r.listUnfinishedRequests(ctx, other.Namespace, func(d *v1alpha1.DeletionRun) bool {
		return d.UID != other.UID && !lifecycle.IsPlanned(d) && isSameBackup(d, other)
	})
}

// listUnfinishedRequests returns requests for the unfinished DeletionRuns of a namespace that
// match.
func (r *Reconciler) listUnfinishedRequests(ctx context.Context, namespace string, wanted func(*v1alpha1.DeletionRun) bool) []reconcile.Request {
	var list v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache cannot fail once it has started
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if d := &list.Items[i]; !lifecycle.IsFinished(d) && wanted(d) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: d.Namespace, Name: d.Name}})
		}
	}
	return requests
}
