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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

const (
	// verifyDelay is how long other controllers have to revert a change before the workload is
	// checked again. Controllers react within that time.
	verifyDelay = 2 * time.Second
	// minPollInterval and maxPollInterval bound the time between two checks of the pods, which is a
	// tenth of the elapsed time.
	minPollInterval, maxPollInterval = 3 * time.Second, 15 * time.Second
	// contendedDelay is the wait before the next attempt after others wrote at the same time.
	contendedDelay = time.Second
	// maxScopes is the maximum number of namespaces that are listed one by one.
	maxScopes = 8
)

// target is a workload to quiesce.
type target struct {
	Workload
	// autoscaler is nil if the workload has none.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
}

// Quiesce makes one attempt to quiesce the workloads of a request. It never waits, and is done if
// Result.RetryAfter is zero. What it quiesced stays held until Unquiesce or ReleaseExpired
// unquiesces it, even if Quiesce returns an error, which is an *Error.
//
// Quiesce tries every workload, even if others fail. Only a refusal (see Policy, and StatefulSets
// that delete the volumes of removed replicas) fails before anything is written. If a reason for
// refusal appears after other workloads were stopped, Quiesce unquiesces those. It also writes
// nothing while a rollout is in progress.
func (q *Quiescer) Quiesce(ctx context.Context, req Request) (Result, error) {
	now := q.options.Now()
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
	var held []Workload
	for _, t := range targets {
		if ctx.Err() != nil {
			break
		}
		w, d, err := p.applyDecision(ctx, t.Workload, func(w Workload) Decision {
			if d, stays := p.blockedDecision(target{w, t.autoscaler}); stays {
				return d
			}
			return DecideQuiesce(w, holder, now)
		})
		p.recordOutcome(w.Ref, d, err)
		if d.Outcome == Quiesced || d.Outcome == AlreadyQuiesced || d.Outcome == QuiescedByRestore {
			held = append(held, w)
		}
	}
	return p.quiesceResult(ctx, held)
}

// quiesceResult returns the progress of the attempt.
func (p *pass) quiesceResult(ctx context.Context, held []Workload) (Result, error) {
	result := p.newResult()
	if err := p.aggregateError(ctx, "could not quiesce everything"); err != nil {
		return result, err
	}
	result.Outputs = newOutputs(p.items)
	done := p.summaryMessage()
	switch rolling := describeItems(p.items, RollingOut); {
	case rolling != "":
		result.Message, result.RetryAfter = "Waiting for rollouts to finish: "+rolling, p.nextPollInterval()
	case p.contendedCount > 0:
		result.Message, result.RetryAfter = "Retrying workloads that others write at the same time: "+describeItems(p.items, Contended), contendedDelay
	case p.writeCount > 0:
		result.Message, result.RetryAfter = done+"; checking whether they stay so", verifyDelay
	case p.req.WaitForPods:
		left := p.describeRunningPods(ctx, held)
		if err := p.aggregateError(ctx, "could not list the remaining pods"); err != nil {
			return p.newResult(), err
		}
		result.Message = done + ", and all their pods have terminated"
		if len(left) > 0 {
			pods := summarizePods(left)
			p.log.Info("Waiting for pods to terminate", "pods", pods)
			result.Message, result.RetryAfter = done+"; waiting for "+pods, p.nextPollInterval()
		}
	default:
		result.Message = done
	}
	result.Message = executor.OneLine(result.Message)
	return result, nil
}

// nextPollInterval returns the time until the next check of the pods.
func (p *pass) nextPollInterval() time.Duration {
	if p.req.Since.IsZero() {
		return minPollInterval
	}
	return min(max(p.options.Now().Sub(p.req.Since)/10, minPollInterval), maxPollInterval)
}

// listQuiesceTargets lists the workloads to quiesce, in the order in which they are quiesced. A
// list that fails is recorded as a failure.
func (p *pass) listQuiesceTargets(ctx context.Context) []target {
	var all []target
	var namespaces []string
	for _, namespace := range withoutDuplicates(p.req.Namespaces) {
		if p.isProtectedNamespace(namespace) {
			p.recordOutcome(Ref{Namespace: namespace}, Decision{Outcome: Protected, Text: "is never quiesced"}, nil)
			continue
		}
		namespaces = append(namespaces, namespace)
	}
	for _, where := range scopesForNamespaces(namespaces) {
		found, err := p.listTargetsInScope(ctx, where)
		if err != nil {
			p.recordFailure(Ref{Namespace: where.Namespace}, err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(t target) bool { return !slices.Contains(namespaces, t.Namespace) })
	slices.SortFunc(all, func(a, b target) int { return compareRefs(a.Ref, b.Ref) })
	return all
}

// isProtectedNamespace reports whether nothing could be unquiesced if this namespace were quiesced.
func (p *pass) isProtectedNamespace(namespace string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease", p.options.OperatorNamespace}, namespace)
}

// scopesForNamespaces returns the scopes to list for these namespaces. They may cover more: many
// small lists take longer than one large list.
func scopesForNamespaces(namespaces []string) []client.ListOptions {
	if len(namespaces) > maxScopes {
		return []client.ListOptions{{}}
	}
	found := make([]client.ListOptions, 0, len(namespaces))
	for _, namespace := range namespaces {
		found = append(found, client.ListOptions{Namespace: namespace})
	}
	return found
}

func withoutDuplicates(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// listTargetsInScope lists the workloads to quiesce. It returns none if any list fails: without the
// autoscalers, for example, it is unknown what would be reverted.
func (p *pass) listTargetsInScope(ctx context.Context, where client.ListOptions) ([]target, error) {
	scalers, err := p.listAutoscalersByTarget(ctx, where)
	if err != nil {
		return nil, err
	}
	var found []target
	cronJobs := map[string]bool{}
	for _, kind := range workloadKinds {
		wanted := len(p.req.Kinds) == 0 || slices.Contains(p.req.Kinds, kind)
		if !wanted && kind != CronJob {
			continue
		}
		where.LabelSelector = p.req.Selector
		if kind == Job {
			where.LabelSelector = nil // Jobs of a selected CronJob have labels of their own
		}
		all, err := p.listWorkloads(ctx, kind, where)
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if kind == CronJob {
				cronJobs[w.UID] = true
			}
			if wanted && p.shouldQuiesce(w, cronJobs) {
				found = append(found, target{Workload: w, autoscaler: scalers[w.Ref]})
			}
		}
	}
	return found, nil
}

// shouldQuiesce reports whether a listed workload is selected. A Job is selected by its own labels
// or with its CronJob.
func (p *pass) shouldQuiesce(w Workload, cronJobs map[string]bool) bool {
	switch {
	case w.Deleting, w.Finished, IsOwnedByDeployment(w), IsActionJob(w):
		return false
	case w.Kind != Job, p.req.Selector == nil, p.req.Selector.Matches(labels.Set(w.Labels)):
		return true
	}
	return w.Owner != nil && cronJobs[string(w.Owner.UID)]
}

// listAutoscalersByTarget lists autoscalers by their targets.
func (q *Quiescer) listAutoscalersByTarget(
	ctx context.Context, where client.ListOptions,
) (map[Ref]*autoscalingv2.HorizontalPodAutoscaler, error) {
	found := map[Ref]*autoscalingv2.HorizontalPodAutoscaler{}
	empty := func() client.ObjectList { return &autoscalingv2.HorizontalPodAutoscalerList{} }
	err := forEachObject(ctx, q, empty, where, func(o *autoscalingv2.HorizontalPodAutoscaler) {
		target := o.Spec.ScaleTargetRef
		found[Ref{Kind: WorkloadKind(target.Kind), Namespace: o.Namespace, Name: target.Name}] = o
	})
	if err != nil {
		return nil, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	return found, nil
}
