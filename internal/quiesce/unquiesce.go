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
// What somebody changed meanwhile is left as it is, and what is missing is told; neither is
// an error. An error is an *Error; what could be given back, was.
func (q *Quiescer) Unquiesce(ctx context.Context, req Request) (Result, error) {
	if err := req.check(); err != nil {
		return Result{}, err
	}
	now := q.options.Now()
	decide := func(w state.Workload) state.Decision { return state.Release(w, req.Holder, now, req.actions()...) }
	if req.Origin == Restored {
		release := decide
		decide = func(w state.Workload) state.Decision {
			if !slices.Contains(req.Namespaces, w.Namespace) {
				return release(w) // what others brought there is none of this Restore's
			}
			return state.Adopt(w, req.Holder, now, req.actions()...)
		}
	}
	p := q.begin(ctx, req)
	for _, w := range p.findHeld(ctx) {
		if ctx.Err() != nil {
			break
		}
		p.giveBack(ctx, w, decide)
	}
	return p.givenBack(ctx)
}

// overdueTimeout is how long one overdue workload may take: a webhook that hangs must not keep
// the others down.
const overdueTimeout = time.Minute

// Overdue gives back those of the workloads whose holders are all over their deadline at now,
// and returns in Result.Next when to call it for the others. The holders of each are in its
// Item, so that those may be told who lost it; they find a note of it. It is idempotent and
// never waits.
//
// Those that came with a restore are left alone: what nobody here quiesced, no deadline here
// wakes.
func (q *Quiescer) Overdue(ctx context.Context, now time.Time, refs ...state.Ref) (Result, error) {
	p := q.begin(ctx, Request{})
	var next time.Time
	decide := func(w state.Workload) state.Decision {
		d := state.Expire(w, now)
		if !d.Due.IsZero() && (next.IsZero() || d.Due.Before(next)) {
			next = d.Due
		}
		return d
	}
	order := state.Kinds()
	backwards := func(a, b state.Ref) int { return compareRefs(order, b, a) }
	for _, ref := range slices.SortedFunc(slices.Values(refs), backwards) {
		if ctx.Err() != nil {
			break
		}
		p.expire(ctx, ref, decide)
	}
	p.items = slices.DeleteFunc(p.items, func(i Item) bool { return i.Outcome == state.Released })
	result, err := p.givenBack(ctx)
	result.Next = next
	return result, err
}

// expire gives back one workload if its time is over.
func (p *pass) expire(ctx context.Context, ref state.Ref, decide func(state.Workload) state.Decision) {
	ctx, cancel := context.WithTimeout(ctx, overdueTimeout)
	defer cancel()
	switch w, err := p.get(ctx, ref); {
	case apierrors.IsNotFound(err):
	case err != nil:
		p.fail(ref, err)
	default:
		p.giveBack(ctx, w, decide)
	}
}

// giveBack settles one workload. Nothing is noted about one that is none of the holder's,
// unless it should be.
func (p *pass) giveBack(ctx context.Context, w state.Workload, decide func(state.Workload) state.Decision) {
	if w.Deleting {
		return
	}
	w, d, err := p.settle(ctx, w, decide)
	if err == nil && !p.concerns(w, &d) {
		return
	}
	p.add(w.Ref, d, err)
}

// concerns says whether what was decided about a workload is to be told. What the holder
// quiesced, and is not its any more, is lost unless it runs.
func (p *pass) concerns(w state.Workload, d *state.Decision) bool {
	lost, expected := "", p.expected[w.Ref]
	switch _, marked := w.Annotations[state.Annotation]; {
	case d.Outcome == state.Elsewhere && expected:
		lost = "replaced"
	case d.Outcome == state.NotHeld && expected && !marked && w.Quiesced():
		lost = "removed"
	case d.Outcome == state.Elsewhere && p.req.Origin == Unfinished && slices.Contains(p.req.Namespaces, w.Namespace):
		*d = state.Decision{Outcome: LeftStopped, Text: "was restored stopped, and stays so: restore it again, or start it by hand when its data is there"}
	case d.Outcome == state.Elsewhere, d.Outcome == state.NotHeld:
		return false
	case d.Outcome == state.Unreadable:
		// One that is found by its label only may be anybody's: whoever may write a workload
		// can label it.
		return expected || slices.Contains(p.req.Namespaces, w.Namespace)
	}
	if lost != "" {
		*d = state.Decision{Outcome: Lost, Text: "is quiesced, and what was saved about it was " + lost + ": scale or resume it by hand"}
	}
	return true
}

// givenBack says how far it is.
func (p *pass) givenBack(ctx context.Context) (Result, error) {
	result := p.result()
	result.Warning = warning(p.items)
	if err := p.err(ctx, "could not give back everything"); err != nil {
		return result, err
	}
	result.Message = executor.OneLine(p.summary())
	if p.contended > 0 {
		result.Again = contendedAfter
	}
	return result, nil
}

// findHeld returns the workloads that may be the holder's, in the order in which they are
// given back: all of the namespaces, all that are labelled, and all that it put out. What
// cannot be listed is noted as a failure, and what is missing as gone.
func (p *pass) findHeld(ctx context.Context) []state.Workload {
	found := map[state.Ref]state.Workload{}
	namespaces := distinct(p.req.Namespaces)
	for _, where := range scopes(namespaces) {
		p.list(ctx, where, found)
	}
	maps.DeleteFunc(found, func(ref state.Ref, _ state.Workload) bool { return !slices.Contains(namespaces, ref.Namespace) })
	p.list(ctx, marked(), found)
	for _, ref := range parseRefs(p.req.Outputs[OutputWorkloads]) {
		if _, seen := found[ref]; seen {
			continue
		}
		switch w, err := p.get(ctx, ref); {
		case apierrors.IsNotFound(err) && p.expected[ref]:
			delete(p.expected, ref) // outputs may name it twice
			p.add(ref, state.Decision{Outcome: Gone, Text: "was deleted meanwhile"}, nil)
		case apierrors.IsNotFound(err):
		case err != nil:
			p.fail(ref, err)
		default:
			found[ref] = w
		}
	}
	return backwards(found)
}

// list adds the workloads of all kinds. What cannot be listed is noted as a failure.
func (p *pass) list(ctx context.Context, where scope, into map[state.Ref]state.Workload) {
	for _, kind := range state.Kinds() {
		all, err := p.workloads(ctx, kind, where)
		if err != nil {
			p.fail(state.Ref{Kind: kind, Namespace: where.namespace}, err)
		}
		for _, w := range all {
			into[w.Ref] = w
		}
	}
}

// marked is where workloads are that have a state, in all of the cluster.
func marked() scope {
	return scope{selector: labels.SelectorFromSet(labels.Set{state.Label: "true"})}
}

// backwards sorts workloads in the reverse of the order in which they are quiesced.
func backwards(found map[state.Ref]state.Workload) []state.Workload {
	order := state.Kinds()
	sorted := make([]state.Workload, 0, len(found))
	for _, w := range found {
		sorted = append(sorted, w)
	}
	slices.SortFunc(sorted, func(a, b state.Workload) int {
		return compareRefs(order, b.Ref, a.Ref)
	})
	return sorted
}
