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
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// reconcileExpiration destroys an expired Backup. A Backup that was imported from a location belongs
// to another system, which is responsible for its expiry.
func (r *Reconciler) reconcileExpiration(ctx context.Context, b *v1alpha1.Backup) (ctrl.Result, error) {
	if !lifecycle.IsFinalized(b) {
		return ctrl.Result{}, nil
	}
	if b.Spec.ImportedFrom != nil {
		return ctrl.Result{}, lifecycle.ObserveGeneration(ctx, r.Client, b)
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
	r.expiring.Lock()
	defer r.expiring.Unlock()
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

// updateExpiration sets the expiration from the ttl, which may have changed since the run began, and what the message
// says about it, and observes any other change of the spec.
func (r *Reconciler) updateExpiration(ctx context.Context, b *v1alpha1.Backup) (changed bool, err error) {
	want := expirationTime(b)
	if want.Equal(b.Status.Expiration) && b.Status.ObservedGeneration == b.Generation {
		return false, nil
	}
	before := b.DeepCopy()
	b.Status.Expiration = want
	b.Status.Message = lifecycle.ReplaceExpirationNote(before, b)
	conditions.ObserveGeneration(b)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, b, patch); err != nil {
		return false, fmt.Errorf("writing the expiration of Backup %s: %w", b.Name, err)
	}
	return true, nil
}

// expirationTime returns when a Backup expires; nil means never.
func expirationTime(b *v1alpha1.Backup) *metav1.Time {
	ttl := b.TTL()
	if b.Status.StartTimestamp == nil || ttl == 0 {
		return nil
	}
	return &metav1.Time{Time: retentionStart(b).Add(ttl).Truncate(time.Second)}
}

// retentionStart returns the time from which the ttl of a Backup counts. If its recorded start is before
// its creation, because a clock was behind, the creation time of the API server counts.
func retentionStart(b *v1alpha1.Backup) time.Time {
	created, start := b.CreationTimestamp.Time, b.Status.StartTimestamp
	if start == nil || created.Sub(start.Time) > clockTolerance {
		return created
	}
	return start.Time
}

// isProtected reports whether something keeps an expired Backup. A change of that, or a timer,
// enqueues the Backup again.
func (r *Reconciler) isProtected(ctx context.Context, b *v1alpha1.Backup) (bool, error) {
	deletions, err := retention.ListDeletionRuns(ctx, r.Client, b.Namespace, b.Name)
	if err != nil || retention.HasPendingDeletion(b, deletions) {
		return true, err
	}
	if last, err := r.isProtectedByKeepLast(ctx, b); last || err != nil {
		return last, err
	}
	restores, err := retention.ListUnfinishedRestores(ctx, r.Client, b.Namespace) // the DeletionRun itself bypasses the cache
	return retention.IsUsedByRestore(b, restores), err
}

// isProtectedByKeepLast reports whether a Backup is among the newest Completed ones that its Schedule
// keeps.
func (r *Reconciler) isProtectedByKeepLast(ctx context.Context, b *v1alpha1.Backup) (bool, error) {
	by, err := retention.ProtectingSchedule(ctx, r.Client, b, r.Now())
	if by == nil || err != nil {
		return false, err
	}
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonKept, "Expire",
		"The Backup expired at %s but is kept as one of the newest %d Completed Backups of Schedule %s (keepLast)",
		b.Status.Expiration.UTC().Format(time.RFC3339), *by.Spec.KeepLast, by.Name)
	return true, nil
}

// createDeletionRunForExpired creates the DeletionRun of an expired Backup.
func (r *Reconciler) createDeletionRunForExpired(ctx context.Context, b *v1alpha1.Backup) error {
	d, err := r.createDeletionRun(ctx, b, v1alpha1.DeletionCauseExpired)
	switch {
	case isNamespaceTerminating(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for expired Backup %s: %w", b.Name, err)
	case d == nil:
		return nil
	}
	r.expiryCounts.recordExpiring(b)
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonExpired, "Expire", "The Backup expired at %s; DeletionRun %s destroys it",
		b.Status.Expiration.UTC().Format(time.RFC3339), d.Name)
	return nil
}

// deleteObsoleteDeletionRun deletes the DeletionRun of a Backup that is no longer expired: its ttl was
// changed, or a clock was set. A DeletionRun that has begun continues.
func (r *Reconciler) deleteObsoleteDeletionRun(ctx context.Context, b *v1alpha1.Backup) error {
	var d v1alpha1.DeletionRun
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(retention.NewDeletionRun(b, v1alpha1.DeletionCauseExpired)), &d)
	if err != nil || d.Spec.Cause != v1alpha1.DeletionCauseExpired || lifecycle.IsPlanned(&d) || lifecycle.IsFinished(&d) || !d.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	asSeen := client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion}
	switch err := r.Client.Delete(ctx, &d, asSeen); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the watch delivers the changed object
	case err != nil:
		return fmt.Errorf("deleting DeletionRun %s of Backup %s, which is no longer expired: %w", d.Name, b.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted the DeletionRun of a Backup that is no longer expired", "deletionRun", d.Name)
	return nil
}
