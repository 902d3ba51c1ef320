// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// reconcileExpiration has a Backup destroyed whose time is over. One that was found in a location is
// another system's, whose business that is.
func (r *Reconciler) reconcileExpiration(ctx context.Context, b *v1alpha1.Backup) (ctrl.Result, error) {
	if b.Spec.ImportedFrom != nil || !run.IsFinalized(b) {
		return ctrl.Result{}, nil
	}
	if changed, err := r.updateExpiration(ctx, b); changed || err != nil {
		return ctrl.Result{}, err
	}
	if b.Status.Expiration == nil {
		return ctrl.Result{}, r.deleteObsoleteDeletionRun(ctx, b)
	}
	if left := b.Status.Expiration.Sub(r.Now()); left > 0 {
		if err := r.deleteObsoleteDeletionRun(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: min(left, recheckInterval)}, r.resumeExpiry(ctx, b)
	}
	protected, err := r.isProtected(ctx, b)
	if err != nil || protected {
		return ctrl.Result{RequeueAfter: recheckInterval}, err
	}
	wait, err := r.timeUntilExpiryAllowed(ctx, b)
	if err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	return ctrl.Result{RequeueAfter: recheckInterval}, r.createDeletionRunForExpired(ctx, b)
}

// updateExpiration sets the expiration by the ttl, which may have been changed since the beginning.
func (r *Reconciler) updateExpiration(ctx context.Context, b *v1alpha1.Backup) (changed bool, err error) {
	want := expirationTime(b)
	if want.Equal(b.Status.Expiration) {
		return false, nil
	}
	before := b.DeepCopy()
	b.Status.Expiration = want
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, b, patch); err != nil {
		return false, fmt.Errorf("writing the expiration of Backup %s: %w", b.Name, err)
	}
	return true, nil
}

// expirationTime returns when the time of a Backup is over; nil means never.
func expirationTime(b *v1alpha1.Backup) *metav1.Time {
	if b.Status.StartTimestamp == nil || b.Spec.TTL == nil {
		return nil
	}
	return &metav1.Time{Time: retentionStart(b).Add(b.Spec.TTL.Duration).Truncate(time.Second)}
}

// retentionStart returns from when on the time of a Backup counts. One whose clock was behind when
// it began is as old as the API server says, and not older.
func retentionStart(b *v1alpha1.Backup) time.Time {
	created, start := b.CreationTimestamp.Time, b.Status.StartTimestamp
	if start == nil || created.Sub(start.Time) > clockTolerance {
		return created
	}
	return start.Time
}

// isProtected says whether something keeps a Backup whose time is over. Whatever that is wakes
// it when it changes, or time does.
func (r *Reconciler) isProtected(ctx context.Context, b *v1alpha1.Backup) (bool, error) {
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	if destroy.HasPendingDeletion(b, deletions.Items) {
		return true, nil
	}
	if last, err := r.isProtectedByKeepLast(ctx, b, deletions.Items); last || err != nil {
		return last, err
	}
	restores, err := destroy.ListUnfinishedRestores(ctx, r.Client, b.Namespace) // the DeletionRun looks past the cache
	return destroy.IsUsedByRestore(b, restores), err
}

// isProtectedByKeepLast says whether a Backup is among the newest of its Schedule that succeeded, which
// that keeps.
func (r *Reconciler) isProtectedByKeepLast(ctx context.Context, b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun) (bool, error) {
	by, err := destroy.ProtectingSchedule(ctx, r.Client, b, deletions, r.Now())
	if by == nil || err != nil {
		return false, err
	}
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonKept, "Expire",
		"Its time was over at %s; it is kept as one of the newest %d that succeeded of Schedule %s (keepLast)",
		b.Status.Expiration.UTC().Format(time.RFC3339), *by.Spec.KeepLast, by.Name)
	return true, nil
}

// createDeletionRunForExpired has a Backup destroyed whose time is over.
func (r *Reconciler) createDeletionRunForExpired(ctx context.Context, b *v1alpha1.Backup) error {
	d, err := r.createDeletionRun(ctx, b, v1alpha1.DeletionCauseExpired)
	switch {
	case isNamespaceTerminating(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for Backup %s, whose time is over: %w", b.Name, err)
	case d == nil:
		return nil
	}
	r.expiryCounts.recordExpiring(b)
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonExpired, "Expire", "Its time was over at %s; DeletionRun %s destroys it",
		b.Status.Expiration.UTC().Format(time.RFC3339), d.Name)
	return nil
}

// deleteObsoleteDeletionRun takes back the DeletionRun of a Backup whose time is not over any more: its ttl
// was changed, or a clock was set. One that has begun goes on.
func (r *Reconciler) deleteObsoleteDeletionRun(ctx context.Context, b *v1alpha1.Backup) error {
	var d v1alpha1.DeletionRun
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(destroy.NewDeletionRun(b, v1alpha1.DeletionCauseExpired)), &d)
	if err != nil || d.Spec.Cause != v1alpha1.DeletionCauseExpired || run.IsPlanned(&d) || run.IsFinished(&d) || !d.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	asSeen := client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion}
	switch err := r.Client.Delete(ctx, &d, asSeen); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the watch brings what it is now
	case err != nil:
		return fmt.Errorf("taking back DeletionRun %s of Backup %s, whose time is not over any more: %w", d.Name, b.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("The time of a Backup is not over any more; its DeletionRun is taken back", "deletionRun", d.Name)
	return nil
}
