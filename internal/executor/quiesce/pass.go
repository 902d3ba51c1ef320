// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// maxApplyAttempts is how often one call reads a workload and decides again when others write it
// concurrently.
const maxApplyAttempts = 4

// pass is the state of one call.
type pass struct {
	*Quiescer
	req   Request
	log   logr.Logger
	items []Item
	// errs are the causes of the failed items, in the order of the items.
	errs []error
	// expected are the workloads that the outputs of Quiesce name and that should still be
	// quiesced. It is empty after a restore, which may have replaced them.
	expected map[Ref]bool
	// writeCount counts writes. contendedCount counts the workloads for which every write failed
	// with a conflict.
	writeCount, contendedCount int
}

func (q *Quiescer) newPass(ctx context.Context, req Request) *pass {
	log := logr.FromContextOrDiscard(ctx).WithValues("holder", req.Holder, "attempt", req.Attempt, "key", req.Key)
	p := &pass{Quiescer: q, req: req, log: log, expected: map[Ref]bool{}}
	if req.Origin != OriginRestored {
		for _, ref := range parseWorkloadRefs(req.Outputs[OutputWorkloads]) {
			p.expected[ref] = true
		}
	}
	return p
}

// applyDecision decides about a workload and writes the decision, reading the workload again after
// a conflict. It returns the workload that the decision was made for. The outcome is Gone if the
// workload was deleted, and Contended if others write it all the time.
func (p *pass) applyDecision(
	ctx context.Context, w Workload, decide func(Workload) Decision,
) (Workload, Decision, error) {
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
			var fresh Workload
			if fresh, err = p.getWorkload(ctx, w.Ref); err == nil {
				w = fresh
				continue
			}
		}
		if apierrors.IsNotFound(err) {
			return w, Decision{Outcome: Gone, Text: "was deleted in the meantime"}, nil
		}
		return w, Decision{Outcome: Failed}, err
	}
	p.contendedCount++
	return w, Decision{Outcome: Contended, Text: "is constantly written by others"}, nil
}

// recordOutcome adds the outcome for a workload to the items.
func (p *pass) recordOutcome(ref Ref, d Decision, err error) {
	text := d.Text
	if err != nil {
		text = "could not be read or written: " + err.Error()
	}
	item := Item{
		Ref: ref, Outcome: d.Outcome, Text: executor.OneLine(p.options.Redactor.String(text)),
		Holders: d.Holders, RanWhileHeld: d.RanWhileHeld,
	}
	p.items = append(p.items, item)
	if slices.Contains(failureOutcomes, d.Outcome) {
		if err == nil {
			err = fmt.Errorf("%w: %s", errLocalDecision, item.Text)
		}
		p.errs = append(p.errs, fmt.Errorf("%s: %w", ref, err))
	}
}

// recordFailure adds an item for an object or a list that could not be read.
func (p *pass) recordFailure(ref Ref, err error) {
	p.recordOutcome(ref, Decision{Outcome: Failed}, err)
}

// aggregateError returns the failures of the call as one error, or nil. The text starts with what.
func (p *pass) aggregateError(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		kind, text := executor.Interrupted, "was interrupted"
		if errors.Is(err, context.DeadlineExceeded) {
			kind, text = executor.Timeout, "did not finish before its deadline: raise its timeout, or find out why the API server is slow"
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
	return &Error{Kind: kind, Text: executor.OneLine(what + ": " + describeItems(p.items, failureOutcomes...)), Err: errors.Join(p.errs...)}
}

// isUnreachable reports whether the connection to the API server failed or the API server is
// overloaded.
func isUnreachable(err error) bool {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		return !errors.Is(err, errLocalDecision) && !meta.IsNoMatchError(err)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// errLocalDecision is the cause of failures that did not come from the API server.
var errLocalDecision = errors.New("decided")
