// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// Unquiesce makes one attempt to give back what the holder of a request holds, in whatever
// namespace; with the origin Restored also what was restored in its quiesced form, in the
// namespaces of the request only, unless its Restore is Unfinished. It is done if Result.Again is zero.
//
// What others changed meanwhile is left as it is, and what is missing, or cannot be started
// because its state is lost, is told; none of this is an error. An error is an *Error; what could be given back, was.
func (q *Quiescer) Unquiesce(ctx context.Context, req Request) (Result, error) {
	if err := req.validateFields(); err != nil {
		return Result{}, err
	}
	now := q.options.Now()
	decide := func(w state.Workload) state.Decision {
		return state.DecideRelease(w, req.Holder, now, req.actionsToRelease()...)
	}
	if req.Origin == OriginRestored {
		release := decide
		decide = func(w state.Workload) state.Decision {
			if !slices.Contains(req.Namespaces, w.Namespace) {
				return release(w) // what others brought there is none of this Restore's
			}
			return state.DecideRestored(w, req.Holder, now, req.actionsToRelease()...)
		}
	}
	p := q.newPass(ctx, req)
	for _, w := range p.listHeldWorkloads(ctx) {
		if ctx.Err() != nil {
			break
		}
		p.releaseWorkload(ctx, w, decide)
	}
	return p.unquiesceResult(ctx)
}

// releaseTimeout is how long one overdue workload may take: a webhook that hangs must not keep
// the others down.
const releaseTimeout = time.Minute

// ReleaseExpired gives back those of the workloads whose holders are all over their deadline at now,
// and returns in Result.Next when to call it for the others. The holders of each are in its
// Item, so that those may be told who lost it; they find a note of it. It is idempotent and
// never waits.
//
// The runs with the UIDs in ended do not count: they will not give anything back.
//
// Those that came with a restore are left alone: what nobody here quiesced, no deadline here
// wakes.
func (q *Quiescer) ReleaseExpired(ctx context.Context, now time.Time, ended []string, refs ...state.Ref) (Result, error) {
	p := q.newPass(ctx, Request{})
	var next time.Time
	decide := func(w state.Workload) state.Decision {
		d := state.DecideExpired(w, now, ended...)
		if !d.NextExpiration.IsZero() && (next.IsZero() || d.NextExpiration.Before(next)) {
			next = d.NextExpiration
		}
		return d
	}
	order := state.WorkloadKinds()
	backwards := func(a, b state.Ref) int { return compareWorkloadRefs(order, b, a) }
	for _, ref := range slices.SortedFunc(slices.Values(refs), backwards) {
		if ctx.Err() != nil {
			break
		}
		p.releaseIfExpired(ctx, ref, decide)
	}
	p.items = slices.DeleteFunc(p.items, func(i Item) bool { return i.Outcome == state.StillHeld })
	result, err := p.unquiesceResult(ctx)
	result.NextExpiration = next
	return result, err
}

// releaseIfExpired gives back one workload if its time is over.
func (p *pass) releaseIfExpired(ctx context.Context, ref state.Ref, decide func(state.Workload) state.Decision) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	switch w, err := p.getWorkload(ctx, ref); {
	case apierrors.IsNotFound(err):
	case err != nil:
		p.recordFailure(ref, err)
	default:
		p.releaseWorkload(ctx, w, decide)
	}
}

// releaseWorkload settles one workload. Nothing is noted about one that is none of the holder's,
// unless it should be.
func (p *pass) releaseWorkload(ctx context.Context, w state.Workload, decide func(state.Workload) state.Decision) {
	if w.Deleting {
		return
	}
	w, d, err := p.applyDecision(ctx, w, decide)
	if err == nil && !p.reviseForReport(w, &d) {
		return
	}
	p.recordOutcome(w.Ref, d, err)
}

// reviseForReport says whether what was decided about a workload is to be told. What the holder
// quiesced, and is not its any more, is lost unless it runs. So is one whose state cannot be read:
// whoever may write the workload can make it so, and no retry would change that.
func (p *pass) reviseForReport(w state.Workload, d *state.Decision) bool {
	lost, expected := "", p.expected[w.Ref]
	switch _, marked := w.Annotations[state.Annotation]; {
	case d.Outcome == state.QuiescedByRestore && expected:
		lost = "replaced"
	case d.Outcome == state.NotHeld && expected && !marked && w.IsQuiesced():
		lost = "removed"
	case d.Outcome == state.QuiescedByRestore && p.req.Origin == OriginUnfinished && slices.Contains(p.req.Namespaces, w.Namespace):
		*d = state.Decision{Outcome: LeftStopped, Text: "was restored stopped, and stays so: restore it again, or start it by hand when its data is there"}
	case d.Outcome == state.QuiescedByRestore, d.Outcome == state.NotHeld:
		return false
	case d.Outcome == state.Unreadable:
		// One that is found by its label only may be anybody's: whoever may write a workload
		// can label it.
		d.Outcome = Lost
		return expected || slices.Contains(p.req.Namespaces, w.Namespace)
	}
	if lost != "" {
		*d = state.Decision{Outcome: Lost, Text: "is quiesced, and what was saved about it was " + lost + ": scale or resume it by hand"}
	}
	return true
}

// unquiesceResult says how far it is.
func (p *pass) unquiesceResult(ctx context.Context) (Result, error) {
	result := p.newResult()
	result.Warning, result.Stopped = startedWarning(p.items), stoppedMessage(p.items)
	if err := p.aggregateError(ctx, "could not give back everything"); err != nil {
		return result, err
	}
	result.Message = executor.OneLine(p.summaryMessage())
	if p.contendedCount > 0 {
		result.RetryAfter = contendedDelay
	}
	return result, nil
}

// listHeldWorkloads returns the workloads that may be the holder's, in the order in which they are
// given back: all of the namespaces, all that are labelled, and all that it put out. What
// cannot be listed is noted as a failure, and what is missing as gone.
func (p *pass) listHeldWorkloads(ctx context.Context) []state.Workload {
	found := map[state.Ref]state.Workload{}
	namespaces := withoutDuplicates(p.req.Namespaces)
	for _, where := range scopesForNamespaces(namespaces) {
		p.listAllKinds(ctx, where, found)
	}
	maps.DeleteFunc(found, func(ref state.Ref, _ state.Workload) bool { return !slices.Contains(namespaces, ref.Namespace) })
	p.listAllKinds(ctx, labeledScope(), found)
	for _, ref := range parseWorkloadRefs(p.req.Outputs[OutputWorkloads]) {
		if _, seen := found[ref]; seen {
			continue
		}
		switch w, err := p.getWorkload(ctx, ref); {
		case apierrors.IsNotFound(err) && p.expected[ref]:
			delete(p.expected, ref) // outputs may name it twice
			p.recordOutcome(ref, state.Decision{Outcome: Gone, Text: "was deleted meanwhile"}, nil)
		case apierrors.IsNotFound(err):
		case err != nil:
			p.recordFailure(ref, err)
		default:
			found[ref] = w
		}
	}
	return inReleaseOrder(found)
}

// listAllKinds adds the workloads of all kinds. What cannot be listed is noted as a failure.
func (p *pass) listAllKinds(ctx context.Context, where scope, into map[state.Ref]state.Workload) {
	for _, kind := range state.WorkloadKinds() {
		all, err := p.listWorkloads(ctx, kind, where)
		if err != nil {
			p.recordFailure(state.Ref{Kind: kind, Namespace: where.namespace}, err)
		}
		for _, w := range all {
			into[w.Ref] = w
		}
	}
}

// labeledScope is where workloads are that have a state, in all of the cluster.
func labeledScope() scope {
	return scope{selector: labels.SelectorFromSet(labels.Set{state.Label: "true"})}
}

// inReleaseOrder sorts workloads in the reverse of the order in which they are quiesced.
func inReleaseOrder(found map[state.Ref]state.Workload) []state.Workload {
	order := state.WorkloadKinds()
	sorted := make([]state.Workload, 0, len(found))
	for _, w := range found {
		sorted = append(sorted, w)
	}
	slices.SortFunc(sorted, func(a, b state.Workload) int {
		return compareWorkloadRefs(order, b.Ref, a.Ref)
	})
	return sorted
}
