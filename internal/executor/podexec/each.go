// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// each treats every pod once, and goes on after a failure: an action that thaws must
// reach as many as it can. It lists until there is nothing new.
func (r *run) each(ctx context.Context) error {
	for range maxPasses {
		pods, err := r.list(ctx)
		if err != nil {
			return err
		}
		if r.first == nil {
			r.first = pods
		}
		r.settle(pods)
		targets := r.fresh(ctx, pods)
		if len(targets) == 0 {
			r.await(pods)
			return nil
		}
		r.treat(ctx, targets)
		if ctx.Err() != nil && r.open(len(targets)) {
			return r.interrupted(ctx)
		}
	}
	return executor.NewError(executor.Unreachable, r.call,
		"new pods kept appearing while the command ran: let the selector find those that last", nil)
}

// treat runs the command in several pods, at most Parallel at once, and begins in
// their order.
func (r *run) treat(ctx context.Context, targets []target) {
	results := make([]*result, len(targets))
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	for i, t := range targets {
		group.Go(func() error {
			results[i] = r.exec(ctx, t)
			return nil
		})
	}
	// A failure is a result here, no error.
	_ = group.Wait()
	for _, res := range results {
		if res != nil {
			r.results = append(r.results, res)
		}
	}
}

// open reports whether one of the last commands did not end.
func (r *run) open(targets int) bool {
	last := r.results[max(0, len(r.results)-targets):]
	return len(last) < targets || slices.ContainsFunc(last, func(res *result) bool { return res.lost })
}
