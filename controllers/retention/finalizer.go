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
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// reconcileDeletedBackup holds a deleted Backup until its stored data is deleted, if the data must be
// deleted with it.
func (r *Reconciler) reconcileDeletedBackup(ctx context.Context, b *v1alpha1.Backup) error {
	if !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerStoredData) {
		return nil
	}
	if b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete {
		claim, err := r.findClaim(ctx, b)
		if err != nil || (claim != nil && !conditions.IsTrue(claim, v1alpha1.ConditionDataDeleted)) {
			return err
		}
		return r.removeFinalizer(ctx, b)
	}
	deletions, err := retention.ListDeletionRuns(ctx, r.Client, b.Namespace, b.Name)
	if err != nil {
		return err
	}
	open := false
	for i := range deletions {
		d := &deletions[i]
		if !retention.Matches(d, b) {
			continue
		}
		if conditions.IsTrue(d, v1alpha1.ConditionDataDeleted) {
			return r.removeFinalizer(ctx, b)
		}
		open = open || isActiveDeletionRun(d)
	}
	if open {
		return nil // its end enqueues the Backup
	}
	return r.createDeletionRunForDeleted(ctx, b)
}

// findClaim returns the active DeletionRun that has claimed a Backup; nil if there is none. The caller
// must not change it.
func (r *Reconciler) findClaim(ctx context.Context, b *v1alpha1.Backup) (*v1alpha1.DeletionRun, error) {
	by := b.Annotations[v1alpha1.AnnotationDeletedBy]
	if by == "" {
		return nil, nil
	}
	deletions, err := retention.ListDeletionRuns(ctx, r.Client, b.Namespace, b.Name)
	if err != nil {
		return nil, err
	}
	for i := range deletions {
		if d := &deletions[i]; string(d.UID) == by && isActiveDeletionRun(d) {
			return d, nil
		}
	}
	return nil, nil
}

// isActiveDeletionRun reports whether a DeletionRun will destroy something. One that is deleted itself
// does so only if it has begun.
func isActiveDeletionRun(d *v1alpha1.DeletionRun) bool {
	return !lifecycle.IsFinished(d) && (d.DeletionTimestamp.IsZero() || lifecycle.IsPlanned(d))
}

// createDeletionRunForDeleted creates the DeletionRun of a deleted Backup. If nothing can be created any
// more, the data stays.
func (r *Reconciler) createDeletionRunForDeleted(ctx context.Context, b *v1alpha1.Backup) error {
	switch _, err := r.createDeletionRun(ctx, b, v1alpha1.DeletionCauseBackupDeleted); {
	case err == nil:
		return nil // the watch delivers it
	case !isNamespaceTerminating(err):
		return fmt.Errorf("creating a DeletionRun for deleted Backup %s: %w", b.Name, err)
	case b.Status.StorageLocation == "":
		return r.removeFinalizer(ctx, b) // nothing was stored
	}
	note := fmt.Sprintf("The stored data of Backup %s stays in BackupStorageLocation %s: its namespace is being deleted, and no DeletionRun can be created in it",
		b.StoredName(), b.Status.StorageLocation)
	ctrl.LoggerFrom(ctx).Info(note)
	r.Recorder.Eventf(b, nil, corev1.EventTypeWarning, v1alpha1.ReasonDataLeftBehind, "Delete", "%s", lifecycle.TruncateEventNote(note))
	if err := r.removeFinalizer(ctx, b); err != nil {
		return err
	}
	r.dataLeftBehind.Inc() // only now, because failures above are retried
	return nil
}

// createDeletionRun creates the DeletionRun of a Backup for a cause, and returns it; nil if one of its
// name exists. A DeletionRun that finished without effect makes way for another after a while: its
// problem may have been fixed.
func (r *Reconciler) createDeletionRun(ctx context.Context, b *v1alpha1.Backup, cause v1alpha1.DeletionCause) (*v1alpha1.DeletionRun, error) {
	d := retention.NewDeletionRun(b, cause)
	err := r.Client.Create(ctx, d)
	if !apierrors.IsAlreadyExists(err) {
		return d, err
	}
	var there v1alpha1.DeletionRun
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(d), &there); err != nil {
		return nil, client.IgnoreNotFound(err) // the watch delivers it, or its end
	}
	end := there.Status.CompletionTimestamp
	if end == nil || !there.DeletionTimestamp.IsZero() || isWithinLast(end.Time, r.Now(), recheckInterval) {
		return nil, nil
	}
	err = r.Client.Delete(ctx, &there, client.Preconditions{UID: &there.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	return nil, err
}

// removeFinalizer removes the finalizer of a Backup.
func (r *Reconciler) removeFinalizer(ctx context.Context, b *v1alpha1.Backup) error {
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(b, v1alpha1.FinalizerStoredData)
	if err := r.Client.Patch(ctx, b, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Backup %s: %w", b.Name, err)
	}
	return nil
}

// isNamespaceTerminating reports whether a creation failed because the namespace is being deleted.
func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
