// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// requeueUntilPluginLoaded reports whether a call must wait until loading the plugin was attempted.
// An operator that takes over finds operations before it has loaded their plugins. That is no
// failure, and timeouts keep running meanwhile. The operation is enqueued when the wait ends, or
// requeued after the returned time.
func (r *Reconciler) requeueUntilPluginLoaded(ctx context.Context, k *trackedOperation) (waiting bool, after time.Duration, err error) {
	tried := r.Actions.LoadAttempted(k.plugin)
	select {
	case <-tried:
		r.calls.Forget(k.loadID)
		return false, 0, nil
	default:
	}
	err = r.Client.Get(ctx, types.NamespacedName{Name: k.plugin}, &v1alpha1.Plugin{})
	if apierrors.IsNotFound(err) {
		return false, 0, nil // it will never be loaded
	}
	if err != nil {
		return false, 0, fmt.Errorf("reading Plugin %s: %w", k.plugin, err)
	}
	//nolint:contextcheck // the wait outlives the reconcile that starts it; the runner gives it its context
	started := r.calls.EnsureStarted(k.loadID, k.name, func(ctx context.Context) (callResult, error) {
		select {
		case <-tried:
		case <-ctx.Done():
		}
		return callResult{}, ctx.Err()
	})
	if !started {
		after = time.Second
	}
	return true, after, nil
}
