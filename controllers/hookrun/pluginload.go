// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// pluginLoadID identifies the wait for the plugin of a HookRun.
func pluginLoadID(run *v1alpha1.HookRun) string { return string(run.UID) + "/plugin" }

// isPluginLoadAttempted reports whether loading the plugin of a HookRun was attempted.
func (r *Reconciler) isPluginLoadAttempted(run *v1alpha1.HookRun) bool {
	select {
	case <-r.Catalog.LoadAttempted(run.Spec.PluginRef.Name):
		return true
	default:
		return false
	}
}

// requeueUntilCallable reports whether a HookRun that is about to call its action must wait until
// loading the plugin was attempted. An operator that takes over finds HookRuns before it has
// loaded their plugins, and no attempt may fail because of that. The HookRun is enqueued when
// the wait ends, or requeued after the returned time.
func (r *Reconciler) requeueUntilCallable(ctx context.Context, run *v1alpha1.HookRun) (waiting bool, after time.Duration, err error) {
	request := intervention.UnhandledRequest(run)
	skips := request != nil && request.Type == v1alpha1.HookInterventionSkip
	if run.Spec.DesiredState == v1alpha1.HookDesiredStateWait || ((skips || shouldCancel(run)) && !hasUnansweredCall(run)) {
		return false, 0, nil
	}
	return r.requeueUntilPluginLoaded(ctx, run)
}

// requeueUntilPluginLoaded is requeueUntilCallable for every HookRun that needs its plugin.
func (r *Reconciler) requeueUntilPluginLoaded(ctx context.Context, run *v1alpha1.HookRun) (waiting bool, after time.Duration, err error) {
	name := run.Spec.PluginRef.Name
	tried := r.Catalog.LoadAttempted(name)
	select {
	case <-tried:
		r.calls.Forget(pluginLoadID(run))
		return false, 0, nil
	default:
	}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.Plugin{})
	if apierrors.IsNotFound(err) {
		return false, 0, nil // it will never be loaded
	}
	if err != nil {
		return false, 0, fmt.Errorf("reading Plugin %s: %w", name, err)
	}
	//nolint:contextcheck // the wait outlives the reconcile that starts it; the runner gives it its context
	result := r.startTask(pluginLoadID(run), run, func(ctx context.Context) (callResult, error) {
		select {
		case <-tried:
		case <-ctx.Done():
		}
		return callResult{}, ctx.Err()
	})
	return true, result.RequeueAfter, nil
}
