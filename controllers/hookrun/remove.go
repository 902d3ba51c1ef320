// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// leftID names the removal of what is left of a run.
func leftID(run *v1alpha1.HookRun) string { return string(run.UID) + "/left" }

// conclude is the pass for a run that has ended. What ran for it is removed only now that its
// answer is recorded: until then an operator that takes over has to find it.
func (r *Reconciler) conclude(ctx context.Context, run *v1alpha1.HookRun) (ctrl.Result, error) {
	r.calls.Forget(callID(run))
	r.calls.Forget(loadID(run))
	if !run.Status.Removing {
		_, after, err := r.releaseOrphan(ctx, run)
		return ctrl.Result{RequeueAfter: after}, err
	}
	if removed, after, err := r.remove(ctx, run); !removed || err != nil {
		return ctrl.Result{RequeueAfter: after}, err
	}
	before := run.DeepCopy()
	run.Status.Removing = false
	if current, err := r.write(ctx, before, run, step{}); !current || err != nil {
		return ctrl.Result{}, err
	}
	r.calls.Forget(leftID(run))
	return ctrl.Result{}, nil
}

// remove has what is left of a run removed in the background, and says whether that is over.
func (r *Reconciler) remove(ctx context.Context, run *v1alpha1.HookRun) (over bool, after time.Duration, err error) {
	if ended, known := r.calls.State(leftID(run)); known {
		return ended != nil, 0, nil
	}
	if waiting, after, err := r.awaitLoad(ctx, run); waiting || err != nil {
		return false, after, err
	}
	by := r.ranBy(run, nil)
	if by == nil {
		return true, 0, nil // Kubernetes removes it some time
	}
	// It may have been removed already, if the cache lags.
	if current, err := r.isCurrent(ctx, run); !current || err != nil {
		return false, 0, err
	}
	//nolint:contextcheck // it outlives the reconcile that starts it; the runner gives it its context
	return false, r.startRemoving(run, by).RequeueAfter, nil
}

// startRemoving has what is left of a run removed. The run is woken when that is over, well or
// not: what cannot be removed ends, and is removed, at times of its own.
func (r *Reconciler) startRemoving(run *v1alpha1.HookRun, by executor.Resumer) ctrl.Result {
	if by == nil {
		return ctrl.Result{RequeueAfter: time.Second} // once its plugin is loaded
	}
	call, log := callOf(run), r.log(run, callOf(run))
	started := r.calls.Ensure(leftID(run), client.ObjectKeyFromObject(run), func(ctx context.Context) (called, error) {
		limited, cancel := context.WithTimeout(logr.NewContext(ctx, log), clearTime)
		defer cancel()
		err := by.Stop(limited, call)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "What ran for the action was not removed, and is removed later")
		}
		return called{}, err
	})
	if !started {
		return ctrl.Result{RequeueAfter: time.Second}
	}
	return ctrl.Result{}
}

// releaseOrphan lets go of a run that nothing will come of any more: its subject
// is gone, and it has ended or is being deleted. What still runs for it is ended before. As
// long as there is a subject, its controller releases its runs when it recorded them.
func (r *Reconciler) releaseOrphan(ctx context.Context, run *v1alpha1.HookRun) (orphan bool, after time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		return false, 0, nil
	}
	_, err = readSubject(ctx, r.Client, run)
	if err == nil {
		return false, 0, nil
	}
	if !isGone(err) {
		return false, 0, fmt.Errorf("looking for the subject of HookRun %s: %w", run.Name, err)
	}
	if run.Status.CompletionTimestamp == nil && run.Status.Attempt > 0 {
		if over, after, err := r.remove(ctx, run); !over || err != nil {
			return true, after, err
		}
	}
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerHookRun)
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, run, patch)); err != nil {
		return false, 0, fmt.Errorf("releasing HookRun %s: %w", run.Name, err)
	}
	r.calls.Forget(leftID(run))
	if run.Status.CompletionTimestamp == nil && (run.Spec.Owed || run.Status.StartTimestamp != nil) {
		r.Recorder.Eventf(run, nil, corev1.EventTypeWarning, v1alpha1.ReasonCleanupAbandoned, string(run.Spec.Hook),
			"Given up: its %s %s was removed by force. Check by hand whether the action has to be undone",
			run.Spec.Subject.Kind, run.Spec.Subject.Name)
	}
	return true, 0, nil
}
