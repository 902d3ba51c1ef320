// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// finalize keeps a Backup that is deleted until its stored data is gone, if that is to go
// with it.
func (r *Reconciler) finalize(ctx context.Context, b *v1alpha1.Backup) error {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerStoredData) {
		return nil
	}
	if b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete {
		return r.release(ctx, b)
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	open := false
	for i := range deletions.Items {
		d := &deletions.Items[i]
		if !destroy.Of(d, b) {
			continue
		}
		if conditions.IsTrue(d, v1alpha1.ConditionDataDeleted) {
			return r.release(ctx, b)
		}
		open = open || (!run.Decided(d) && d.DeletionTimestamp.IsZero())
	}
	if open {
		return nil // its end has the Backup looked at again
	}
	return r.destroyDeleted(ctx, b)
}

// destroyDeleted creates the DeletionRun of a Backup that is deleted. Where nothing can be
// created any more, the data stays.
func (r *Reconciler) destroyDeleted(ctx context.Context, b *v1alpha1.Backup) error {
	switch err := r.Client.Create(ctx, destroy.Run(b, v1alpha1.DeletionCauseBackupDeleted)); {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil // the watch brings it, or the end of one that was cancelled
	case !isEnding(err):
		return fmt.Errorf("creating a DeletionRun for Backup %s, which is deleted: %w", b.Name, err)
	}
	note := fmt.Sprintf("The stored data of Backup %s stays in BackupStorageLocation %s: its namespace is being deleted, so that nothing can be created that destroys it",
		b.StoredName(), b.Status.StorageLocation)
	r.kept.Inc()
	ctrl.LoggerFrom(ctx).Info(note)
	r.Recorder.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.ReasonDataLeftBehind, "Delete", "%s", run.Note(note))
	return r.release(ctx, b)
}

// release lets go of a Backup.
func (r *Reconciler) release(ctx context.Context, b *v1alpha1.Backup) error {
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(b, v1alpha1.FinalizerStoredData)
	if err := r.Client.Patch(ctx, b, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing Backup %s: %w", b.Name, err)
	}
	return nil
}

// isEnding says whether nothing can be created in a namespace, as it is being deleted.
func isEnding(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }
