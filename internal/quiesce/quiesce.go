// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

const (
	// verifyDelay is how long others have to change back what was quiesced, before it is
	// looked at again. Controllers react within that time.
	verifyDelay = 2 * time.Second
	// minPollInterval and maxPollInterval are the times between two looks at the pods: a tenth of the
	// time that has passed, between these.
	minPollInterval, maxPollInterval = 3 * time.Second, 15 * time.Second
	// contendedDelay is the time until the next try if others wrote all the time.
	contendedDelay = time.Second
	// maxScopes is how many are looked into one by one at most.
	maxScopes = 8
)

// target is a workload that is to be quiesced.
type target struct {
	state.Workload
	// autoscaler is nil if it has none.
	autoscaler *state.Autoscaler
}

// Quiesce makes one attempt to quiesce the workloads of a request, and returns without
// waiting. It is done if Result.Again is zero. What it quiesced is held until it is given back
// by Unquiesce or Overdue, also if it returns an error, which is an *Error.
//
// All workloads are tried, whatever becomes of others. Only what is refused (see Policy, and
// StatefulSets that delete the volumes of replicas that go) fails before anything is written;
// if it appears when others are stopped already, those are given back. Nothing is written either
// until rollouts that go on have ended.
func (q *Quiescer) Quiesce(ctx context.Context, req Request) (Result, error) {
	now := q.options.Now()
	if err := req.validateFields(); err != nil {
		return Result{}, err
	}
	holder, err := req.newHolder(now)
	if err != nil {
		return Result{}, err
	}
	p := q.newPass(ctx, req)
	targets := p.listQuiesceTargets(ctx)
	if refused := p.recordRefused(targets); refused != "" {
		return p.newResult(), q.rollBackQuiesce(ctx, req, refused)
	}
	if p.recordRollouts(targets) {
		return p.quiesceResult(ctx, nil)
	}
	var held []state.Workload
	for _, t := range targets {
		if ctx.Err() != nil {
			break
		}
		w, d, err := p.applyDecision(ctx, t.Workload, func(w state.Workload) state.Decision {
			if d, stays := p.blockedDecision(target{w, t.autoscaler}); stays {
				return d
			}
			return state.DecideQuiesce(w, holder, now)
		})
		p.recordOutcome(w.Ref, d, err)
		if isQuiescedOutcome(d.Outcome) {
			held = append(held, w)
		}
	}
	return p.quiesceResult(ctx, held)
}

func isQuiescedOutcome(o Outcome) bool {
	return o == state.Quiesced || o == state.AlreadyQuiesced || o == state.QuiescedByRestore
}

// quiesceResult says how far it is.
func (p *pass) quiesceResult(ctx context.Context, held []state.Workload) (Result, error) {
	result := p.newResult()
	if err := p.aggregateError(ctx, "could not quiesce everything"); err != nil {
		return result, err
	}
	result.Outputs = newOutputs(p.items)
	done := p.summaryMessage()
	switch rolling := p.describeItems(isRollingOutOutcome); {
	case rolling != "":
		result.Message, result.RetryAfter = "Waiting for rollouts to end: "+rolling, p.nextPollInterval()
	case p.contendedCount > 0:
		result.Message, result.RetryAfter = "Trying again what others write at the same time: "+p.describeItems(isContendedOutcome), contendedDelay
	case p.writeCount > 0:
		result.Message, result.RetryAfter = done+"; looking whether they stay so", verifyDelay
	case p.req.WaitForPods:
		left := p.describeRunningPods(ctx, held)
		if err := p.aggregateError(ctx, "could not find out which pods are left"); err != nil {
			return p.newResult(), err
		}
		result.Message = done + ", and no pod of them is left"
		if len(left) > 0 {
			text := summarizePods(left)
			p.log.Info("Waiting for pods to end", "pods", text)
			result.Message, result.RetryAfter = done+"; waiting for "+text, p.nextPollInterval()
		}
	default:
		result.Message = done
	}
	result.Message = executor.OneLine(result.Message)
	return result, nil
}

// nextPollInterval returns when to look at the pods again.
func (p *pass) nextPollInterval() time.Duration {
	if p.req.Since.IsZero() {
		return minPollInterval
	}
	return min(max(p.options.Now().Sub(p.req.Since)/10, minPollInterval), maxPollInterval)
}

// listQuiesceTargets lists what is to be quiesced, in the order in which that is done. What cannot be
// listed is noted as a failure.
func (p *pass) listQuiesceTargets(ctx context.Context) []target {
	var all []target
	var namespaces []string
	for _, namespace := range withoutDuplicates(p.req.Namespaces) {
		if p.isProtectedNamespace(namespace) {
			p.recordOutcome(state.Ref{Namespace: namespace}, state.Decision{Outcome: Protected, Text: "is never quiesced"}, nil)
			continue
		}
		namespaces = append(namespaces, namespace)
	}
	for _, where := range scopesForNamespaces(namespaces) {
		found, err := p.listTargetsInScope(ctx, where)
		if err != nil {
			p.recordFailure(state.Ref{Namespace: where.namespace}, err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(t target) bool { return !slices.Contains(namespaces, t.Namespace) })
	order := state.WorkloadKinds()
	slices.SortStableFunc(all, func(a, b target) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return all
}

// isProtectedNamespace says whether a namespace is one without which nothing could be given back.
func (p *pass) isProtectedNamespace(namespace string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease", p.options.OperatorNamespace}, namespace)
}

// scopesForNamespaces returns where to list what is in these namespaces, and may be in others: many lists
// take longer than a large one.
func scopesForNamespaces(namespaces []string) []scope {
	if len(namespaces) > maxScopes {
		return []scope{{}}
	}
	found := make([]scope, 0, len(namespaces))
	for _, namespace := range namespaces {
		found = append(found, scope{namespace: namespace})
	}
	return found
}

func withoutDuplicates(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// listTargetsInScope lists what is to be quiesced. There is nothing if something cannot be listed:
// without the autoscalers, for example, nobody knows what would be changed back.
func (p *pass) listTargetsInScope(ctx context.Context, where scope) ([]target, error) {
	scalers, err := p.listAutoscalersByTarget(ctx, where)
	if err != nil {
		return nil, err
	}
	var found []target
	cronJobs := map[string]bool{}
	for _, kind := range state.WorkloadKinds() {
		wanted := len(p.req.Kinds) == 0 || slices.Contains(p.req.Kinds, kind)
		if !wanted && kind != state.CronJob {
			continue
		}
		where.selector = p.req.Selector
		if kind == state.Job {
			where.selector = nil // those of a chosen CronJob have labels of their own
		}
		all, err := p.listWorkloads(ctx, kind, where)
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if kind == state.CronJob {
				cronJobs[w.UID] = true
			}
			if wanted && p.shouldQuiesce(w, cronJobs) {
				found = append(found, target{Workload: w, autoscaler: scalers[w.Ref]})
			}
		}
	}
	return found, nil
}

// shouldQuiesce says whether a workload that was listed is to be quiesced. A Job is for its own
// labels, or with its CronJob.
func (p *pass) shouldQuiesce(w state.Workload, cronJobs map[string]bool) bool {
	switch {
	case w.Deleting, w.Finished, state.IsOwnedByDeployment(w), state.IsActionJob(w):
		return false
	case w.Kind != state.Job, p.req.Selector == nil, p.req.Selector.Matches(labels.Set(w.Labels)):
		return true
	}
	return w.Owner != nil && cronJobs[string(w.Owner.UID)]
}

// listAutoscalersByTarget lists autoscalers by what they scale.
func (p *pass) listAutoscalersByTarget(ctx context.Context, where scope) (map[state.Ref]*state.Autoscaler, error) {
	found := map[state.Ref]*state.Autoscaler{}
	err := p.forEachAutoscaler(ctx, where, func(o *autoscalingv2.HorizontalPodAutoscaler) {
		ref, s := toAutoscaler(o)
		found[ref] = &s
	})
	if err != nil {
		return nil, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	return found, nil
}
