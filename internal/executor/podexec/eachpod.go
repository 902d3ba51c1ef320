// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// runInEachPod runs the command once in every pod, and continues after a failure: an action that
// thaws must reach as many pods as possible. It lists again until there are no new pods.
func (r *invocation) runInEachPod(ctx context.Context) error {
	for range maxListPasses {
		pods, err := r.listPods(ctx)
		if err != nil {
			return err
		}
		if r.MaxPods > 0 && len(pods) > r.MaxPods {
			return executor.NewError(executor.Invalid, r.call,
				fmt.Sprintf("%d pods have commands, and at most %d can be remembered: include fewer", len(pods), r.MaxPods), nil)
		}
		if r.initialPods == nil {
			r.initialPods = pods
		}
		r.updateFailedResults(pods)
		targets := r.selectNewTargets(ctx, pods)
		if len(targets) == 0 {
			r.recordPendingPods(pods)
			return nil
		}
		r.runInTargets(ctx, targets)
		if ctx.Err() != nil && r.hasUnfinishedCommand(len(targets)) {
			return r.newContextError(ctx)
		}
	}
	return executor.NewError(executor.Unreachable, r.call,
		"new pods kept appearing while the command ran: make the selector match only long-lived pods", nil)
}

// runInTargets runs the command in several pods, at most Parallel at once, and starts in their
// order, or in that of each namespace.
func (r *invocation) runInTargets(ctx context.Context, targets []target) {
	results := make([]*podResult, len(targets))
	slots := make(chan struct{}, r.Parallel)
	var groups errgroup.Group
	for _, indexes := range r.groupTargets(targets) {
		groups.Go(func() error {
			var group errgroup.Group
			group.SetLimit(cmp.Or(r.ParallelInNamespace, r.Parallel))
			for _, i := range indexes {
				group.Go(func() error {
					slots <- struct{}{}
					defer func() { <-slots }()
					results[i] = r.runInPod(ctx, targets[i])
					return nil
				})
			}
			return group.Wait()
		})
	}
	// A failure is a result here, not an error.
	_ = groups.Wait()
	for _, res := range results {
		if res != nil {
			r.results = append(r.results, res)
		}
	}
}

// groupTargets returns the indexes of the targets that share a limit: of all, or of each namespace.
func (r *invocation) groupTargets(targets []target) map[string][]int {
	groups := map[string][]int{}
	for i, t := range targets {
		key := ""
		if r.ParallelInNamespace > 0 {
			key = t.pod.Namespace
		}
		groups[key] = append(groups[key], i)
	}
	return groups
}

// hasUnfinishedCommand reports whether one of the last commands did not finish.
func (r *invocation) hasUnfinishedCommand(targets int) bool {
	last := r.results[max(0, len(r.results)-targets):]
	return len(last) < targets || slices.ContainsFunc(last, func(res *podResult) bool { return res.connectionLost })
}
