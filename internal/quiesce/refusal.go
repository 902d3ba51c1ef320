// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// blockedDecision returns why a workload is not quiesced, or not yet, although it is chosen.
func (p *pass) blockedDecision(t target) (state.Decision, bool) {
	text := p.refusalReason(t)
	rolls := text == "" && t.Rollout == state.RolloutProgressing && !t.IsQuiesced() && p.req.WhenManaged != Force
	if rolls {
		text = "is in the middle of a rollout"
	}
	switch {
	case text == "":
		return state.Decision{}, false
	case p.req.WhenManaged == Skip:
		reason, _, _ := strings.Cut(text, ": ")
		return state.Decision{Outcome: LeftOut, Text: reason + ", and is left running"}, true
	case rolls:
		return state.Decision{Outcome: RollingOut, Text: text}, true
	}
	return state.Decision{Outcome: Refused, Text: text}, true
}

// refusalReason says why a workload is not to be quiesced, and what to do about it; "" if it may be.
func (p *pass) refusalReason(t target) string {
	if t.DeletesVolumes && !t.IsQuiesced() {
		return "would lose its volumes, which it deletes when it is scaled down: " +
			"set persistentVolumeClaimRetentionPolicy.whenScaled to Retain"
	}
	if p.req.WhenManaged == Force {
		return ""
	}
	const orSkip = "; or leave it running by setting whenManaged to " + string(Skip)
	if m, managed := state.ManagerOf(t.Workload, t.autoscaler, p.options.Now()); managed {
		return "is managed by " + m.Name + ", which would change it back: " + m.Advice + orSkip
	}
	if t.Rollout == state.RolloutStalled && !t.IsQuiesced() {
		return "is in the middle of a rollout, which goes on only if somebody lets it, and which stopping it would finish: " +
			"finish or undo that first" + orSkip
	}
	return ""
}

// recordRollouts says whether rollouts are to be waited for, and notes them. What is stopped meanwhile
// may be what the new pods need to become ready, so nothing is.
func (p *pass) recordRollouts(targets []target) bool {
	found := false
	for _, t := range targets {
		if d, stays := p.blockedDecision(t); stays && d.Outcome == RollingOut {
			p.recordOutcome(t.Ref, d, nil)
			found = true
		}
	}
	return found
}

// recordRefused names those of the workloads that may not be quiesced, "" if there are none.
func (p *pass) recordRefused(targets []target) string {
	for _, t := range targets {
		if d, stays := p.blockedDecision(t); stays && d.Outcome == Refused {
			p.recordOutcome(t.Ref, d, nil)
		}
	}
	return p.describeItems(func(o Outcome) bool { return o == Refused })
}

// rollBackQuiesce gives back what an earlier call has stopped: nothing else may do so if the action has
// no other half. It returns the error that says what was refused, and what became of those.
func (q *Quiescer) rollBackQuiesce(ctx context.Context, req Request, refused string) error {
	req.Origin, req.Outputs = OriginCluster, nil
	back, err := q.Unquiesce(ctx, req)
	stopped := describeItemsWhere(back.Items, func(o Outcome) bool { return o == state.Restored || o == state.ChangedSince })
	switch {
	case err != nil || back.RetryAfter > 0:
		kind, text := executor.Failed, "others write them all the time"
		if failed := (*Error)(nil); errors.As(err, &failed) {
			kind, text = failed.Kind, failed.Text
		}
		return &Error{Kind: kind, Err: errors.Join(errLocalDecision, err), Text: executor.OneLine(
			"refused, and what was stopped before could not be given back yet (" + text + "): " + refused)}
	case stopped != "":
		return &Error{Kind: executor.Invalid, Err: errLocalDecision, Text: executor.OneLine(
			"refused, when others were stopped, which were given back (" + stopped + "): " + refused)}
	}
	return &Error{Kind: executor.Invalid, Text: executor.OneLine("refused, and changed nothing: " + refused), Err: errLocalDecision}
}

func isRollingOutOutcome(o Outcome) bool { return o == RollingOut }

func isContendedOutcome(o Outcome) bool { return o == Contended }
