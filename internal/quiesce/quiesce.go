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
	// verifyAfter is how long others have to change back what was quiesced, before it is
	// looked at again. Controllers react within that time.
	verifyAfter = 2 * time.Second
	// podsAfter and podsAtMost are the times between two looks at the pods: a tenth of the
	// time that has passed, between these.
	podsAfter, podsAtMost = 3 * time.Second, 15 * time.Second
	// contendedAfter is the time until the next try if others wrote all the time.
	contendedAfter = time.Second
	// manyNamespaces is how many are looked into one by one at most.
	manyNamespaces = 8
)

// target is a workload that is to be quiesced.
type target struct {
	state.Workload
	// scaler is nil if it has none.
	scaler *state.Scaler
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
	if err := req.check(); err != nil {
		return Result{}, err
	}
	holder, err := req.holder(now)
	if err != nil {
		return Result{}, err
	}
	p := q.begin(ctx, req)
	targets := p.targets(ctx)
	if refused := p.refused(targets); refused != "" {
		return p.result(), q.refuse(ctx, req, refused)
	}
	if p.rollingOut(targets) {
		return p.quiesced(ctx, nil)
	}
	var held []state.Workload
	for _, t := range targets {
		if ctx.Err() != nil {
			break
		}
		w, d, err := p.settle(ctx, t.Workload, func(w state.Workload) state.Decision {
			if d, stays := p.obstacle(target{w, t.scaler}); stays {
				return d
			}
			return state.Quiesce(w, holder, now)
		})
		p.add(w.Ref, d, err)
		if isQuiesced(d.Outcome) {
			held = append(held, w)
		}
	}
	return p.quiesced(ctx, held)
}

func isQuiesced(o Outcome) bool {
	return o == state.Quiesced || o == state.Already || o == state.Elsewhere
}

// quiesced says how far it is.
func (p *pass) quiesced(ctx context.Context, held []state.Workload) (Result, error) {
	result := p.result()
	if err := p.err(ctx, "could not quiesce everything"); err != nil {
		return result, err
	}
	result.Outputs = outputs(p.items)
	done := p.summary()
	switch rolling := p.named(isRollingOut); {
	case rolling != "":
		result.Message, result.Again = "Waiting for rollouts to end: "+rolling, p.nextLook()
	case p.contended > 0:
		result.Message, result.Again = "Trying again what others write at the same time: "+p.named(isContended), contendedAfter
	case p.wrote > 0:
		result.Message, result.Again = done+"; looking whether they stay so", verifyAfter
	case p.req.WaitForPods:
		left := p.podsLeft(ctx, held)
		if err := p.err(ctx, "could not find out which pods are left"); err != nil {
			return p.result(), err
		}
		result.Message = done + ", and no pod of them is left"
		if len(left) > 0 {
			text := describe(left)
			p.log.Info("Waiting for pods to end", "pods", text)
			result.Message, result.Again = done+"; waiting for "+text, p.nextLook()
		}
	default:
		result.Message = done
	}
	result.Message = executor.OneLine(result.Message)
	return result, nil
}

// nextLook returns when to look at the pods again.
func (p *pass) nextLook() time.Duration {
	if p.req.Since.IsZero() {
		return podsAfter
	}
	return min(max(p.options.Now().Sub(p.req.Since)/10, podsAfter), podsAtMost)
}

// targets lists what is to be quiesced, in the order in which that is done. What cannot be
// listed is noted as a failure.
func (p *pass) targets(ctx context.Context) []target {
	var all []target
	var namespaces []string
	for _, namespace := range distinct(p.req.Namespaces) {
		if p.protected(namespace) {
			p.add(state.Ref{Namespace: namespace}, state.Decision{Outcome: Protected, Text: "is never quiesced"}, nil)
			continue
		}
		namespaces = append(namespaces, namespace)
	}
	for _, where := range scopes(namespaces) {
		found, err := p.inScope(ctx, where)
		if err != nil {
			p.fail(state.Ref{Namespace: where.namespace}, err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(t target) bool { return !slices.Contains(namespaces, t.Namespace) })
	order := state.Kinds()
	slices.SortStableFunc(all, func(a, b target) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return all
}

// protected says whether a namespace is one without which nothing could be given back.
func (p *pass) protected(namespace string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease", p.options.OperatorNamespace}, namespace)
}

// scopes returns where to list what is in these namespaces, and may be in others: many lists
// take longer than a large one.
func scopes(namespaces []string) []scope {
	if len(namespaces) > manyNamespaces {
		return []scope{{}}
	}
	found := make([]scope, 0, len(namespaces))
	for _, namespace := range namespaces {
		found = append(found, scope{namespace: namespace})
	}
	return found
}

func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// inScope lists what is to be quiesced. There is nothing if something cannot be listed:
// without the autoscalers, for example, nobody knows what would be changed back.
func (p *pass) inScope(ctx context.Context, where scope) ([]target, error) {
	scalers, err := p.scalers(ctx, where)
	if err != nil {
		return nil, err
	}
	var found []target
	cronJobs := map[string]bool{}
	for _, kind := range state.Kinds() {
		wanted := len(p.req.Kinds) == 0 || slices.Contains(p.req.Kinds, kind)
		if !wanted && kind != state.CronJob {
			continue
		}
		where.selector = p.req.Selector
		if kind == state.Job {
			where.selector = nil // those of a chosen CronJob have labels of their own
		}
		all, err := p.workloads(ctx, kind, where)
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if kind == state.CronJob {
				cronJobs[w.UID] = true
			}
			if wanted && p.chooses(w, cronJobs) {
				found = append(found, target{Workload: w, scaler: scalers[w.Ref]})
			}
		}
	}
	return found, nil
}

// chooses says whether a workload that was listed is to be quiesced. A Job is for its own
// labels, or with its CronJob.
func (p *pass) chooses(w state.Workload, cronJobs map[string]bool) bool {
	switch {
	case w.Deleting, w.Finished, state.Part(w), state.OfAction(w):
		return false
	case w.Kind != state.Job, p.req.Selector == nil, p.req.Selector.Matches(labels.Set(w.Labels)):
		return true
	}
	return w.Owner != nil && cronJobs[string(w.Owner.UID)]
}

// scalers lists autoscalers by what they scale.
func (p *pass) scalers(ctx context.Context, where scope) (map[state.Ref]*state.Scaler, error) {
	found := map[state.Ref]*state.Scaler{}
	err := p.autoscalers(ctx, where, func(o *autoscalingv2.HorizontalPodAutoscaler) {
		ref, s := convertScaler(o)
		found[ref] = &s
	})
	if err != nil {
		return nil, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	return found, nil
}
