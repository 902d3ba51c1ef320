// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// runsOfBackup returns the DeletionRuns of a Backup that have not ended.
func (r *Reconciler) runsOfBackup(ctx context.Context, backup client.Object) []reconcile.Request {
	return r.open(ctx, backup.GetNamespace(), func(d *v1alpha1.DeletionRun) bool {
		return backup.GetName() == d.Spec.BackupName || backup.GetName() == d.Status.BackupName
	})
}

// runsOfRestore returns the DeletionRuns that wait for a Restore.
func (r *Reconciler) runsOfRestore(ctx context.Context, object client.Object) []reconcile.Request {
	restore, ok := object.(*v1alpha1.Restore)
	if !ok || !run.Decided(restore) {
		return nil
	}
	return r.open(ctx, restore.Namespace, func(d *v1alpha1.DeletionRun) bool { return !run.Planned(d) && reads(restore, d) })
}

// siblingsOf returns the DeletionRuns that wait for another one.
func (r *Reconciler) siblingsOf(ctx context.Context, object client.Object) []reconcile.Request {
	other, ok := object.(*v1alpha1.DeletionRun)
	if !ok || !run.Decided(other) {
		return nil
	}
	return r.open(ctx, other.Namespace, func(d *v1alpha1.DeletionRun) bool {
		return d.UID != other.UID && !run.Planned(d) && sameBackup(d, other)
	})
}

// open returns the DeletionRuns of a namespace that have not ended and are wanted.
func (r *Reconciler) open(ctx context.Context, namespace string, wanted func(*v1alpha1.DeletionRun) bool) []reconcile.Request {
	var list v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache can not fail once it has started
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if d := &list.Items[i]; !run.Decided(d) && wanted(d) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: d.Namespace, Name: d.Name}})
		}
	}
	return requests
}
