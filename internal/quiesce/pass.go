// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// maxApplyAttempts is how often a workload is read and decided about in one call, if somebody else
// writes it at the same time.
const maxApplyAttempts = 4

// pass is one call.
type pass struct {
	*Quiescer
	req   Request
	log   logr.Logger
	items []Item
	// errs are the causes of the items that are failures, in their order.
	errs []error
	// expected are the workloads that Quiesce put out and that are to be as it left them. After
	// a restore there are none: it may have replaced them.
	expected map[state.Ref]bool
	// writeCount counts writes, contended the workloads of which none succeeded.
	writeCount, contendedCount int
}

func (q *Quiescer) newPass(ctx context.Context, req Request) *pass {
	log := logr.FromContextOrDiscard(ctx).WithValues("holder", req.Holder, "attempt", req.Attempt, "key", req.Key)
	p := &pass{Quiescer: q, req: req, log: log, expected: map[state.Ref]bool{}}
	if req.Origin != OriginRestored {
		for _, ref := range parseWorkloadRefs(req.Outputs[OutputWorkloads]) {
			p.expected[ref] = true
		}
	}
	return p
}

// applyDecision decides about a workload and writes what was decided, with what it is like now.
// It returns the workload that the decision was about. The outcome is Gone if there is none
// any more, and Contended if others write it all the time.
func (p *pass) applyDecision(
	ctx context.Context, w state.Workload, decide func(state.Workload) state.Decision,
) (state.Workload, state.Decision, error) {
	for range maxApplyAttempts {
		d := decide(w)
		if d.Patch == nil {
			return w, d, nil
		}
		err := p.patchWorkload(ctx, w, *d.Patch)
		if err == nil {
			p.writeCount++
			p.log.Info("Wrote a workload", "workload", w.String(), "outcome", d.Outcome, "text", p.options.Redactor.String(d.Text))
			return w, d, nil
		}
		if apierrors.IsConflict(err) {
			var fresh state.Workload
			if fresh, err = p.getWorkload(ctx, w.Ref); err == nil {
				w = fresh
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			return w, state.Decision{Outcome: Gone, Text: "was deleted meanwhile"}, nil
		}
		return w, state.Decision{Outcome: Failed}, err
	}
	p.contendedCount++
	return w, state.Decision{Outcome: Contended, Text: "is written by others all the time"}, nil
}

// recordOutcome notes what became of a workload.
func (p *pass) recordOutcome(ref state.Ref, d state.Decision, err error) {
	text := d.Text
	if err != nil {
		text = "could not be read or written: " + err.Error()
	}
	item := Item{Ref: ref, Outcome: d.Outcome, Text: p.options.Redactor.String(text), Holders: d.Holders, RanWhileHeld: d.RanWhileHeld}
	item.Text = executor.OneLine(item.Text)
	p.items = append(p.items, item)
	if isFailureOutcome(d.Outcome) {
		if err == nil {
			err = fmt.Errorf("%w: %s", errLocalDecision, item.Text)
		}
		p.errs = append(p.errs, fmt.Errorf("%s: %w", ref, err))
	}
}

// recordFailure notes that something could not be read.
func (p *pass) recordFailure(ref state.Ref, err error) {
	p.recordOutcome(ref, state.Decision{Outcome: Failed}, err)
}

func isFailureOutcome(o Outcome) bool {
	switch o {
	case Failed, Refused, state.Reverted, state.Expired, state.Unreadable:
		return true
	default:
		return false
	}
}

// aggregateError returns the failures of the call as one error, nil if there are none. It begins with
// what could not be done.
func (p *pass) aggregateError(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		kind, text := executor.Interrupted, "was interrupted"
		if errors.Is(err, context.DeadlineExceeded) {
			kind, text = executor.Timeout, "was not done before its deadline: raise its timeout, or find out why the API server is slow"
		}
		return &Error{Kind: kind, Text: text, Err: err}
	}
	if len(p.errs) == 0 {
		return nil
	}
	kind := executor.Unreachable
	for _, err := range p.errs {
		if !isUnreachable(err) {
			kind = executor.Failed
		}
	}
	return &Error{Kind: kind, Text: executor.OneLine(what + ": " + p.describeItems(isFailureOutcome)), Err: errors.Join(p.errs...)}
}

// isUnreachable says whether it was the way to the API server that failed, or its load.
func isUnreachable(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !errors.Is(err, errLocalDecision) && !meta.IsNoMatchError(err)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// errLocalDecision is the cause of failures that the API server has no part in.
var errLocalDecision = errors.New("decided")
