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

// expire has a Backup destroyed whose time is over. One that was found in a location is
// another system's, whose business that is.
func (r *Reconciler) expire(ctx context.Context, b *v1alpha1.Backup) (ctrl.Result, error) {
	if b.Spec.ImportedFrom != nil || !run.Settled(b) {
		return ctrl.Result{}, nil
	}
	if changed, err := r.follow(ctx, b); changed || err != nil {
		return ctrl.Result{}, err
	}
	if b.Status.Expiration == nil {
		return ctrl.Result{}, r.withdraw(ctx, b)
	}
	if left := b.Status.Expiration.Sub(r.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: min(left, recheck)}, r.withdraw(ctx, b)
	}
	protected, err := r.protected(ctx, b)
	if err != nil || protected {
		return ctrl.Result{RequeueAfter: recheck}, err
	}
	return ctrl.Result{RequeueAfter: recheck}, r.destroy(ctx, b)
}

// follow sets the expiration by the ttl, which may have been changed since the beginning.
func (r *Reconciler) follow(ctx context.Context, b *v1alpha1.Backup) (changed bool, err error) {
	var want *metav1.Time
	if start := b.Status.StartTimestamp; start != nil && b.Spec.TTL != nil {
		want = &metav1.Time{Time: start.Add(b.Spec.TTL.Duration).Truncate(time.Second)}
	}
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

// protected says whether something keeps a Backup whose time is over. Whatever that is wakes
// it when it changes, or time does.
func (r *Reconciler) protected(ctx context.Context, b *v1alpha1.Backup) (bool, error) {
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	if destroy.Doomed(b, deletions.Items) {
		return true, nil
	}
	if last, err := r.isLast(ctx, b, deletions.Items); last || err != nil {
		return last, err
	}
	restores, err := destroy.OpenRestores(ctx, r.Client, b.Namespace) // the DeletionRun looks past the cache
	return destroy.IsRead(b, restores), err
}

// isLast says whether a Backup is among the newest of its Schedule that succeeded, which
// that keeps.
func (r *Reconciler) isLast(ctx context.Context, b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun) (bool, error) {
	by, err := destroy.KeptBy(ctx, r.Client, b, deletions, r.Now())
	if by == nil || err != nil {
		return false, err
	}
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonKept, "Expire",
		"Its time was over at %s; it is kept as one of the newest %d that succeeded of Schedule %s (keepLast)",
		b.Status.Expiration.UTC().Format(time.RFC3339), *by.Spec.KeepLast, by.Name)
	return true, nil
}

// destroy has a Backup destroyed whose time is over.
func (r *Reconciler) destroy(ctx context.Context, b *v1alpha1.Backup) error {
	d, err := r.request(ctx, b, v1alpha1.DeletionCauseExpired)
	switch {
	case isEnding(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for Backup %s, whose time is over: %w", b.Name, err)
	case d == nil:
		return nil
	}
	r.Recorder.Eventf(b, nil, corev1.EventTypeNormal, v1alpha1.ReasonExpired, "Expire", "Its time was over at %s; DeletionRun %s destroys it",
		b.Status.Expiration.UTC().Format(time.RFC3339), d.Name)
	return nil
}

// withdraw takes back the DeletionRun of a Backup whose time is not over any more: its ttl
// was changed, or a clock was set. One that has begun goes on.
func (r *Reconciler) withdraw(ctx context.Context, b *v1alpha1.Backup) error {
	var d v1alpha1.DeletionRun
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(destroy.Run(b, v1alpha1.DeletionCauseExpired)), &d)
	if err != nil || d.Spec.Cause != v1alpha1.DeletionCauseExpired || run.Planned(&d) || run.Decided(&d) || !d.DeletionTimestamp.IsZero() {
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
