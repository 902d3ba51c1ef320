// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// leftoversID identifies the removal of leftovers of a HookRun.
func leftoversID(run *v1alpha1.HookRun) string { return string(run.UID) + "/left" }

// reconcileFinished reconciles a finished HookRun. The resources of its action are deleted only
// after its answer is recorded: until then an operator that takes over must find them.
func (r *Reconciler) reconcileFinished(ctx context.Context, run *v1alpha1.HookRun) (ctrl.Result, error) {
	r.calls.Forget(attemptID(run))
	r.calls.Forget(pluginLoadID(run))
	if err := lifecycle.ObserveGeneration(ctx, r.Client, run); err != nil {
		return ctrl.Result{}, err
	}
	if !run.Status.Removing {
		_, after, err := r.releaseOrphan(ctx, run)
		return ctrl.Result{RequeueAfter: after}, err
	}
	if removed, after, err := r.removeLeftovers(ctx, run); !removed || err != nil {
		return ctrl.Result{RequeueAfter: after}, err
	}
	before := run.DeepCopy()
	run.Status.Removing = false
	if current, err := r.patchStatus(ctx, before, run, decision{}); !current || err != nil {
		return ctrl.Result{}, err
	}
	r.calls.Forget(leftoversID(run))
	return ctrl.Result{}, nil
}

// removeLeftovers removes the leftovers of a HookRun in the background. It reports whether that has
// ended.
func (r *Reconciler) removeLeftovers(ctx context.Context, run *v1alpha1.HookRun) (over bool, after time.Duration, err error) {
	if ended, known := r.calls.LookupOutcome(leftoversID(run)); known {
		return ended != nil, 0, nil
	}
	if waiting, after, err := r.requeueUntilPluginLoaded(ctx, run); waiting || err != nil {
		return false, after, err
	}
	by := r.executorFor(run, nil)
	if by == nil {
		return true, 0, nil // Kubernetes deletes them eventually
	}
	// They may be gone already, if the cache lags.
	if current, err := r.isCachedCopyCurrent(ctx, run); !current || err != nil {
		return false, 0, err
	}
	//nolint:contextcheck // it outlives the reconcile that starts it; the runner gives it its context
	return false, r.startLeftoverRemoval(run, by).RequeueAfter, nil
}

// startLeftoverRemoval starts removing the leftovers of a HookRun. The HookRun is enqueued when
// that has ended, with or without an error: what cannot be removed now ends and is deleted on its
// own.
func (r *Reconciler) startLeftoverRemoval(run *v1alpha1.HookRun, by executor.Resumable) ctrl.Result {
	if by == nil {
		return ctrl.Result{RequeueAfter: time.Second} // once its plugin is loaded
	}
	call, log := newCall(run), r.callLogger(run, newCall(run))
	return r.startTask(leftoversID(run), run, func(ctx context.Context) (callResult, error) {
		limited, cancel := context.WithTimeout(logr.NewContext(ctx, log), stopTimeout)
		defer cancel()
		err := by.Stop(limited, call)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Removing the leftovers of the action failed; they are removed later")
		}
		return callResult{}, err
	})
}

// releaseOrphan removes the finalizer of a HookRun whose parent no longer exists, once the HookRun
// has finished or is being deleted. Before that it stops what still runs, and runs owed clean-up.
// While the parent exists, the parent's controller releases its HookRuns after it has recorded
// their outcomes.
func (r *Reconciler) releaseOrphan(ctx context.Context, run *v1alpha1.HookRun) (orphan bool, after time.Duration, err error) {
	_, err = readParent(ctx, r.Client, run)
	if err == nil {
		return false, 0, nil
	}
	if !isNotFoundOrReplaced(err) {
		return false, 0, fmt.Errorf("reading the parent of HookRun %s: %w", run.Name, err)
	}
	if _, err := readParent(ctx, r.Reader, run); !isNotFoundOrReplaced(err) {
		return false, 0, err // the cache does not have it yet
	}
	if !controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		return true, 0, nil // already released
	}
	siblings, err := r.listSiblings(ctx, run)
	if err != nil {
		return false, 0, err
	}
	if isOrphanedCleanupOwed(run, siblings) {
		return r.startOrphanedCleanup(ctx, run, siblings)
	}
	ended := run.Status.CompletionTimestamp != nil
	if !ended && run.Status.Attempt > 0 {
		if over, after, err := r.removeLeftovers(ctx, run); !over || err != nil {
			return true, after, err
		}
	}
	if slices.ContainsFunc(siblings, func(other v1alpha1.HookRun) bool { return isOrphanedCleanupOwed(&other, siblings) }) {
		return true, orphanRecheckInterval, r.finishOrphan(ctx, run) // the clean-up needs its outputs, and the record that it was called
	}
	if err := client.IgnoreNotFound(r.removeFinalizer(ctx, run)); err != nil {
		return false, 0, fmt.Errorf("releasing HookRun %s: %w", run.Name, err)
	}
	r.calls.Forget(leftoversID(run))
	r.deletedParents.Delete(run.Spec.ParentRef.UID)
	if !ended {
		r.emitCleanupAbandoned(run)
	}
	return true, 0, nil
}

// emitCleanupAbandoned warns about an action that will not be undone.
func (r *Reconciler) emitCleanupAbandoned(run *v1alpha1.HookRun) {
	if run.Spec.Owed || run.Status.StartTimestamp != nil {
		r.Recorder.Eventf(run, nil, corev1.EventTypeWarning, v1alpha1.ReasonCleanupAbandoned, string(run.Spec.Hook),
			"Abandoned: its %s %s was deleted without its finalizer. Check whether the action must be undone manually",
			run.Spec.ParentRef.Kind, run.Spec.ParentRef.Name)
	}
}
