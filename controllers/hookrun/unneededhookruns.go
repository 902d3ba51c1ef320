// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// deleteIfUnneeded deletes a HookRun that would wait forever because its parent is finalized: one
// process created the HookRuns of a plan while another process finished the parent. It keeps owed
// clean-up. It returns true if the HookRun must not continue.
func (r *Reconciler) deleteIfUnneeded(ctx context.Context, run *v1alpha1.HookRun) (stays bool, after time.Duration, err error) {
	if !isWaitingForTurn(run) {
		return false, 0, nil
	}
	parent, err := readParent(ctx, r.Client, run)
	switch {
	case err != nil && isNotFoundOrReplaced(err):
		after = orphanRecheckInterval // the cache may not have it yet
	case err != nil:
		return false, 0, err
	case !isParentFinalized(parent):
		return false, 0, nil // the watch delivers the end
	}
	parent, err = readParent(ctx, r.Reader, run)
	switch {
	case err != nil && isNotFoundOrReplaced(err):
		return false, 0, nil // Kubernetes deletes the HookRun
	case err != nil:
		return false, 0, err
	case !isParentFinalized(parent):
		return after > 0, after, nil
	}
	siblings, err := r.listSiblings(ctx, run)
	if err != nil || isOwedAfterFinalization(parent, run, siblings) {
		return false, 0, err
	}
	if err := r.deleteHookRun(ctx, run); err != nil {
		return false, 0, err
	}
	return true, 0, nil
}

// deleteHookRun deletes a HookRun, if it is unchanged since it was read.
func (r *Reconciler) deleteHookRun(ctx context.Context, run *v1alpha1.HookRun) error {
	var err error
	if controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		err = r.removeFinalizer(ctx, run)
	}
	if err == nil {
		err = r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion})
	}
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil // the watch delivers the newer object
	case err != nil:
		return fmt.Errorf("deleting HookRun %s, which will never run: %w", run.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a HookRun that will never run", "hook", run.Spec.Hook, "action", run.Spec.ActionName, "for", run.Spec.ParentRef.Name)
	return nil
}

// isWaitingForTurn reports whether a HookRun is pending and was never requested to run.
func isWaitingForTurn(run *v1alpha1.HookRun) bool {
	return run.Spec.DesiredState == v1alpha1.HookDesiredStateWait && run.Status.StartTimestamp == nil && run.Status.CompletionTimestamp == nil
}

// isParentFinalized reports whether a parent is finalized. That state is permanent.
func isParentFinalized(parent client.Object) bool {
	settled, ok := parent.(lifecycle.Object)
	return ok && lifecycle.IsFinalized(settled)
}

// isOwedAfterFinalization reports whether a HookRun of a finalized parent must be kept, because its
// Pre action was called.
func isOwedAfterFinalization(parent client.Object, run *v1alpha1.HookRun, siblings []v1alpha1.HookRun) bool {
	if !run.Spec.Owed {
		return false
	}
	if first := preHookRunFor(run, siblings); first != nil && first.Status.StartTimestamp != nil {
		return true
	}
	settled, ok := parent.(lifecycle.Object)
	if !ok {
		return true
	}
	first, _ := settled.ActionsStatuses()
	if *first == nil {
		return false
	}
	for _, action := range **first {
		if action.PluginName == run.Spec.ActionName && action.StartTimestamp != nil {
			return true
		}
	}
	return false
}

// parentFinalizedPredicate selects the updates that finalize a parent.
func parentFinalizedPredicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // their HookRuns are reconciled when the operator starts
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return isParentFinalized(e.ObjectNew) && !isParentFinalized(e.ObjectOld)
		},
	}
}

// finalizedParentToHookRuns maps a finalized parent to its HookRuns that still wait.
func (r *Reconciler) finalizedParentToHookRuns(ctx context.Context, parent client.Object) []reconcile.Request {
	runs, err := r.listHookRuns(ctx, parent.GetNamespace(), string(parent.GetUID()))
	if err != nil {
		return nil // the cache cannot fail once it has started
	}
	var requests []reconcile.Request
	for i := range runs {
		if isWaitingForTurn(&runs[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&runs[i])})
		}
	}
	return requests
}
