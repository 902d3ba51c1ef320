// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// blockedDecision returns the decision for a selected workload that is not quiesced, or not yet. It
// returns false if nothing blocks the workload.
func (p *pass) blockedDecision(t target) (Decision, bool) {
	text := p.refusalReason(t)
	rolls := text == "" && t.Rollout == RolloutProgressing && !t.IsQuiesced() && p.req.WhenManaged != Force
	if rolls {
		text = "is in the middle of a rollout"
	}
	switch {
	case text == "":
		return Decision{}, false
	case p.req.WhenManaged == Skip:
		reason, _, _ := strings.Cut(text, ": ")
		return Decision{Outcome: LeftOut, Text: reason + ", and is left running"}, true
	case rolls:
		return Decision{Outcome: RollingOut, Text: text}, true
	}
	return Decision{Outcome: Refused, Text: text}, true
}

// refusalReason returns why a workload must not be quiesced and what to do about it, or "" if it
// may be quiesced.
func (p *pass) refusalReason(t target) string {
	if t.DeletesVolumes && !t.IsQuiesced() {
		return "would lose its volumes, which it deletes when it is scaled down: " +
			"set persistentVolumeClaimRetentionPolicy.whenScaled to Retain"
	}
	if p.req.WhenManaged == Force {
		return ""
	}
	const orSkip = "; or leave it running by setting whenManaged to " + string(Skip)
	if m, managed := ManagerOf(t.Workload, t.autoscaler, p.options.Now()); managed {
		return "is managed by " + m.Name + ", which would revert the change: " + m.Advice + orSkip
	}
	if t.Rollout == RolloutStalled && !t.IsQuiesced() {
		return "is in the middle of a rollout that does not continue by itself, and stopping the workload would finish it: " +
			"finish or undo the rollout first" + orSkip
	}
	return ""
}

// recordRollouts reports whether Quiesce must wait for rollouts, and records them. Nothing is
// stopped while a rollout is in progress: the new pods may need it to become ready.
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

// recordRefused records the refused workloads and names them; "" if there are none.
func (p *pass) recordRefused(targets []target) string {
	for _, t := range targets {
		if d, stays := p.blockedDecision(t); stays && d.Outcome == Refused {
			p.recordOutcome(t.Ref, d, nil)
		}
	}
	return describeItems(p.items, Refused)
}

// rollBackQuiesce unquiesces what an earlier call has stopped: if the action has no second half,
// nothing else would. It returns the error that names what was refused and what was unquiesced.
func (q *Quiescer) rollBackQuiesce(ctx context.Context, req Request, refused string) error {
	req.Origin, req.Outputs = OriginCluster, nil
	back, err := q.Unquiesce(ctx, req)
	stopped := describeItems(back.Items, Restored, ChangedSince)
	switch {
	case err != nil || back.RetryAfter > 0:
		kind, text := executor.Failed, "others write them constantly"
		if failed := (*Error)(nil); errors.As(err, &failed) {
			kind, text = failed.Kind, failed.Text
		}
		return &Error{Kind: kind, Err: errors.Join(errLocalDecision, err), Text: executor.OneLine(
			"refused, and the workloads stopped earlier could not be unquiesced yet (" + text + "): " + refused)}
	case stopped != "":
		return &Error{Kind: executor.Invalid, Err: errLocalDecision, Text: executor.OneLine(
			"refused after others had been stopped, which were unquiesced (" + stopped + "): " + refused)}
	}
	return &Error{Kind: executor.Invalid, Text: executor.OneLine("refused, and changed nothing: " + refused), Err: errLocalDecision}
}
