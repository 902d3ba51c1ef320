// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"fmt"
	"slices"
)

// any runs the command in the first pod in which it can be started. One in which it was
// started is the last, whatever came of it: it must not run in two.
func (r *run) any(ctx context.Context) error {
	for range maxPasses {
		pods, err := r.list(ctx)
		if err != nil {
			return err
		}
		targets := r.fresh(ctx, pods)
		if len(targets) == 0 {
			r.await(pods)
			return nil
		}
		slices.SortStableFunc(targets, readyFirst)
		started, err := r.try(ctx, targets)
		if started || err != nil {
			return err
		}
	}
	return nil
}

// try runs the command in one of the targets, and says whether it was started.
func (r *run) try(ctx context.Context, targets []target) (bool, error) {
	for _, t := range targets {
		res := r.exec(ctx, t)
		if res != nil {
			r.results = append(r.results, res)
		}
		switch {
		case res == nil, ctx.Err() != nil && (res.lost || !res.started):
			return false, r.interrupted(ctx)
		case res.lost:
			return true, r.lookAfter(ctx, res)
		case res.started:
			return true, nil
		}
	}
	return false, nil
}

// lookAfter finds out what became of the pod in which the connection was lost, so
// that the error can say more. It is not needed otherwise.
func (r *run) lookAfter(ctx context.Context, res *result) error {
	pods, err := r.list(ctx)
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	if err != nil {
		return nil //nolint:nilerr // The result is an error, too, and says more.
	}
	r.settle(pods)
	if res.outcome == gone {
		res.outcome = failed
		res.text = fmt.Sprintf("the pod went away while the command ran in container %s, nobody knows whether it ended", res.container)
	}
	return nil
}
