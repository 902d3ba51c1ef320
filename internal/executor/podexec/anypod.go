// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"fmt"
	"slices"
)

// runInAnyPod runs the command in the first pod in which it can be started. Once it was started in
// a pod, no other pod is tried, whatever the result: it must not run in two.
func (r *invocation) runInAnyPod(ctx context.Context) error {
	for range maxListPasses {
		pods, err := r.listPods(ctx)
		if err != nil {
			return err
		}
		targets := r.selectNewTargets(ctx, pods)
		if len(targets) == 0 {
			r.recordPendingPods(pods)
			return nil
		}
		slices.SortStableFunc(targets, compareReadyFirst)
		started, err := r.runInFirstStartable(ctx, targets)
		if started || err != nil {
			return err
		}
	}
	return nil
}

// runInFirstStartable runs the command in one of the targets, and reports whether it was started.
func (r *invocation) runInFirstStartable(ctx context.Context, targets []target) (bool, error) {
	for _, t := range targets {
		res := r.runInPod(ctx, t)
		if res != nil {
			r.results = append(r.results, res)
		}
		switch {
		case res == nil, ctx.Err() != nil && (res.connectionLost || !res.started):
			return false, r.newContextError(ctx)
		case res.connectionLost:
			return true, r.explainLostConnection(ctx, res)
		case res.started:
			return true, nil
		}
	}
	return false, nil
}

// explainLostConnection finds out what happened to the pod in which the connection was lost, so
// that the error can say more.
func (r *invocation) explainLostConnection(ctx context.Context, res *podResult) error {
	pods, err := r.listPods(ctx)
	if ctx.Err() != nil {
		return r.newContextError(ctx)
	}
	if err != nil {
		return nil //nolint:nilerr // The result is an error, too, and says more.
	}
	r.updateFailedResults(pods)
	if res.outcome == outcomePodGone {
		res.outcome = outcomeFailed
		res.text = fmt.Sprintf("the pod was deleted while the command ran in container %s; whether it ended is unknown", res.container)
	}
	return nil
}
