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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// Unquiesce makes one attempt to unquiesce what the holder of a request holds, in any namespace.
// With OriginRestored it also unquiesces what was restored in its quiesced form, but only in the
// namespaces of the request. It is done if Result.RetryAfter is zero.
//
// What others changed in the meantime stays as it is. Workloads that are missing, or that cannot be
// started because their state is lost, are reported in the result; none of this is an error. An
// error is an *Error; what could be unquiesced was.
func (q *Quiescer) Unquiesce(ctx context.Context, req Request) (Result, error) {
	now := q.options.Now()
	decide := func(w Workload) Decision {
		return DecideRelease(w, req.Holder, now, req.actionsToRelease()...)
	}
	if req.Origin == OriginRestored {
		release := decide
		decide = func(w Workload) Decision {
			if !slices.Contains(req.Namespaces, w.Namespace) {
				return release(w) // other namespaces are not part of this Restore
			}
			return DecideRestored(w, req.Holder, now, req.actionsToRelease()...)
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

// releaseTimeout limits the time for one expired workload: a hanging webhook must not keep the
// others down.
const releaseTimeout = time.Minute

// ReleaseExpired unquiesces those of the workloads whose holds have all expired at now.
// Result.NextExpiration is when to call it for the others. Each Item has the holders of its
// workload, so that the caller can inform the runs that lost it; the state keeps a note for them.
// ReleaseExpired is idempotent and never waits.
//
// The runs with a UID in ended do not count: they will not unquiesce anything.
//
// Workloads that were restored in their quiesced form are left alone: no deadline of this cluster
// starts what was not quiesced here.
func (q *Quiescer) ReleaseExpired(ctx context.Context, now time.Time, ended []string, refs ...Ref) (Result, error) {
	p := q.newPass(ctx, Request{})
	var next time.Time
	decide := func(w Workload) Decision {
		d := DecideExpired(w, now, ended...)
		if !d.NextExpiration.IsZero() && (next.IsZero() || d.NextExpiration.Before(next)) {
			next = d.NextExpiration
		}
		return d
	}
	backwards := func(a, b Ref) int { return compareRefs(b, a) }
	for _, ref := range slices.SortedFunc(slices.Values(refs), backwards) {
		if ctx.Err() != nil {
			break
		}
		p.releaseIfExpired(ctx, ref, decide)
	}
	p.items = slices.DeleteFunc(p.items, func(i Item) bool { return i.Outcome == StillHeld })
	result, err := p.unquiesceResult(ctx)
	result.NextExpiration = next
	return result, err
}

// releaseIfExpired unquiesces one workload if its holds have expired.
func (p *pass) releaseIfExpired(ctx context.Context, ref Ref, decide func(Workload) Decision) {
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

// releaseWorkload decides about one workload and writes the decision. A workload that the holder
// does not hold is recorded only if it should be held.
func (p *pass) releaseWorkload(ctx context.Context, w Workload, decide func(Workload) Decision) {
	if w.Deleting {
		return
	}
	w, d, err := p.applyDecision(ctx, w, decide)
	if err == nil && !p.reviseForReport(w, &d) {
		return
	}
	p.recordOutcome(w.Ref, d, err)
}

// reviseForReport reports whether to record the decision, and revises it if necessary. A workload
// that the holder quiesced and no longer holds is lost, unless it runs. A workload with an
// unreadable state is lost, too: anyone who may write the workload can cause that, and no retry
// would change it.
func (p *pass) reviseForReport(w Workload, d *Decision) bool {
	lost, expected := "", p.expected[w.Ref]
	switch _, marked := w.Annotations[Annotation]; {
	case d.Outcome == QuiescedByRestore && expected:
		lost = "replaced"
	case d.Outcome == NotHeld && expected && !marked && w.IsQuiesced():
		lost = "removed"
	case d.Outcome == QuiescedByRestore && p.req.Origin == OriginUnfinished && slices.Contains(p.req.Namespaces, w.Namespace):
		*d = Decision{Outcome: LeftStopped, Text: "was restored in its quiesced form, and stays so: restore it again, or start it by hand once its data is complete"}
	case d.Outcome == QuiescedByRestore, d.Outcome == NotHeld:
		return false
	case d.Outcome == Unreadable:
		// A workload that was found only by its label may belong to anyone: whoever may write a
		// workload can label it.
		d.Outcome = Lost
		return expected || slices.Contains(p.req.Namespaces, w.Namespace)
	}
	if lost != "" {
		*d = Decision{Outcome: Lost, Text: "is quiesced, and its saved state was " + lost + ": scale or resume it by hand"}
	}
	return true
}

// unquiesceResult returns the progress of the attempt.
func (p *pass) unquiesceResult(ctx context.Context) (Result, error) {
	result := p.newResult()
	result.Warning, result.Stopped = startedWarning(p.items), stoppedMessage(p.items)
	if err := p.aggregateError(ctx, "could not unquiesce everything"); err != nil {
		return result, err
	}
	result.Message = executor.OneLine(p.summaryMessage())
	if p.contendedCount > 0 {
		result.RetryAfter = contendedDelay
	}
	return result, nil
}

// listHeldWorkloads returns the workloads that the holder may hold, in the order in which they are
// unquiesced: those in the namespaces, those with the label, and those that the outputs name. A
// list that fails is recorded as a failure, and a missing workload as Gone.
func (p *pass) listHeldWorkloads(ctx context.Context) []Workload {
	found := map[Ref]Workload{}
	namespaces := withoutDuplicates(p.req.Namespaces)
	for _, where := range scopesForNamespaces(namespaces) {
		p.listAllKinds(ctx, where, found)
	}
	maps.DeleteFunc(found, func(ref Ref, _ Workload) bool { return !slices.Contains(namespaces, ref.Namespace) })
	// Also those with the label, in the whole cluster.
	p.listAllKinds(ctx, client.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{Label: "true"})}, found)
	for _, ref := range parseWorkloadRefs(p.req.Outputs[OutputWorkloads]) {
		if _, seen := found[ref]; seen {
			continue
		}
		switch w, err := p.getWorkload(ctx, ref); {
		case apierrors.IsNotFound(err) && p.expected[ref]:
			delete(p.expected, ref) // the outputs may name a workload twice
			p.recordOutcome(ref, Decision{Outcome: Gone, Text: "was deleted in the meantime"}, nil)
		case apierrors.IsNotFound(err):
		case err != nil:
			p.recordFailure(ref, err)
		default:
			found[ref] = w
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Workload) int { return compareRefs(b.Ref, a.Ref) })
}

// listAllKinds adds the workloads of all kinds. A list that fails is recorded as a failure.
func (p *pass) listAllKinds(ctx context.Context, where client.ListOptions, into map[Ref]Workload) {
	for _, kind := range workloadKinds {
		all, err := p.listWorkloads(ctx, kind, where)
		if err != nil {
			p.recordFailure(Ref{Kind: kind, Namespace: where.Namespace}, err)
		}
		for _, w := range all {
			into[w.Ref] = w
		}
	}
}
