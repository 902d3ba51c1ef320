// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// reconcileFinished releases a finished operation once its Backup or Restore has finished. It
// removes the finalizer if the operation is being deleted; otherwise it deletes the operation after
// the TTL.
func (r *Reconciler) reconcileFinished(ctx context.Context, op *v1alpha1.AsyncOperation) (ctrl.Result, error) {
	if err := lifecycle.ObserveGeneration(ctx, r.Client, op); err != nil {
		return ctrl.Result{}, err
	}
	wait := r.ttls.TimeUntilDue(client.ObjectKeyFromObject(op), op.Status.CompletionTimestamp.Add(r.Limits.TTL), r.Limits.TTL, r.Now())
	deleted := !op.DeletionTimestamp.IsZero()
	if wait > 0 && !deleted {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	parent, err := r.readParent(ctx, op)
	if err != nil {
		return ctrl.Result{}, err
	}
	if parent != nil && parent.Run().CompletionTimestamp == nil {
		return ctrl.Result{RequeueAfter: r.Limits.TTL}, nil // the end of the parent enqueues the operation, too
	}
	if deleted {
		return ctrl.Result{}, r.removeFinalizer(ctx, op)
	}
	err = r.Client.Delete(ctx, op, client.Preconditions{UID: &op.UID})
	if err := client.IgnoreNotFound(err); err != nil {
		return ctrl.Result{}, fmt.Errorf("deleting the finished AsyncOperation %s: %w", op.Name, err)
	}
	return ctrl.Result{}, nil
}

// removeFinalizer removes the finalizer.
func (r *Reconciler) removeFinalizer(ctx context.Context, op *v1alpha1.AsyncOperation) error {
	patch := client.MergeFromWithOptions(op.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if !controllerutil.RemoveFinalizer(op, v1alpha1.FinalizerAsyncOperation) {
		return nil
	}
	err := r.Client.Patch(ctx, op, patch)
	if apierrors.IsConflict(err) {
		return nil // the watch delivers the newer object
	}
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("releasing AsyncOperation %s: %w", op.Name, err)
	}
	return nil
}
