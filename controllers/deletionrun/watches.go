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
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// backupToDeletionRuns returns the unfinished DeletionRuns of a Backup.
func (r *Reconciler) backupToDeletionRuns(ctx context.Context, backup client.Object) []reconcile.Request {
	deletions, err := retention.ListDeletionRuns(ctx, r.Client, backup.GetNamespace(), backup.GetName())
	if err != nil {
		return nil // the cache cannot fail once it has started
	}
	return unfinishedRequests(deletions, func(*v1alpha1.DeletionRun) bool { return true })
}

// restoreToDeletionRuns returns the DeletionRuns that wait for a Restore.
func (r *Reconciler) restoreToDeletionRuns(ctx context.Context, object client.Object) []reconcile.Request {
	restore, ok := object.(*v1alpha1.Restore)
	if !ok || !lifecycle.IsFinished(restore) {
		return nil
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(restore.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // as above
	}
	return unfinishedRequests(deletions.Items, func(d *v1alpha1.DeletionRun) bool { return !lifecycle.IsPlanned(d) && usesBackup(restore, d) })
}

// deletionRunToSiblings returns the DeletionRuns that wait for another one.
func (r *Reconciler) deletionRunToSiblings(ctx context.Context, object client.Object) []reconcile.Request {
	other, ok := object.(*v1alpha1.DeletionRun)
	if !ok || !lifecycle.IsFinished(other) {
		return nil
	}
	siblings, err := r.listCachedSiblings(ctx, other)
	if err != nil {
		return nil // as above
	}
	return unfinishedRequests(siblings, func(d *v1alpha1.DeletionRun) bool { return !lifecycle.IsPlanned(d) })
}

// unfinishedRequests returns requests for the unfinished DeletionRuns that match.
func unfinishedRequests(deletions []v1alpha1.DeletionRun, wanted func(*v1alpha1.DeletionRun) bool) []reconcile.Request {
	var requests []reconcile.Request
	for i := range deletions {
		if d := &deletions[i]; !lifecycle.IsFinished(d) && wanted(d) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: d.Namespace, Name: d.Name}})
		}
	}
	return requests
}
