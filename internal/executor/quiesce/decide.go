// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"fmt"
	"strings"
	"time"
)

// MaxReverts is how often a workload is quiesced again after others reverted the change. One more
// revert counts as a failure.
const MaxReverts = 3

// Decision is the outcome for a workload, and the write that brings it about.
type Decision struct {
	Outcome Outcome
	// Text adds details, as the end of a sentence that begins with the workload. It may be empty.
	Text string
	// Patch is the write; nil if nothing is to be written.
	Patch *Patch
	// Holders are the UIDs of the runs that the state named before.
	Holders []string
	// NextExpiration is when to call DecideExpired again; zero if that is not needed.
	NextExpiration time.Time
	// RanWhileHeld is set if the workload ran while the releasing run held it. What it stored may
	// have changed while it was read.
	RanWhileHeld bool
}

// DecideQuiesce decides about a workload that h wants quiesced.
func DecideQuiesce(w Workload, h Holder, now time.Time) Decision {
	v := viewForRun(w, h.UID, h.actionFilter())
	switch {
	case v.origin == originUnreadable && w.IsQuiesced():
		return unreadableStateDecision(v.err)
	case v.origin == originOwn && v.isHolder && (v.Expired || v.runHolder.IsExpired(now)):
		return Decision{Outcome: Expired, Text: "was quiesced for as long as this run allows: raise maxQuiesceDuration, or find out why the run takes so long"}
	case v.origin == originOwn && !v.Expired && (w.IsQuiesced() || len(v.ActiveHolders(now)) > 0):
		return decideFurtherHold(w, v.State, h, now)
	case v.origin == originForeign && w.IsQuiesced():
		return Decision{Outcome: QuiescedByRestore, Text: "was restored in its quiesced form, and stays so"}
	case v.origin == originOwn: // it was unquiesced, or a user started it and all holds have expired
		return decideFirstHold(w, State{Holders: v.State.withWorkloadRan(h.UID).Holders}, h, now)
	}
	return decideFirstHold(w, State{}, h, now)
}

// decideFirstHold saves the current value and quiesces the workload. It keeps only the holders and
// the count of reverts of s.
func decideFirstHold(w Workload, s State, h Holder, now time.Time) Decision {
	next := State{Version: stateVersion, Kind: w.Kind, UID: w.UID, Reverts: s.Reverts, Holders: s.Holders}.withHolder(h, now)
	// Nothing else stops a DaemonSet this way: its state was lost, but its previous value is known.
	if w.IsQuiesced() && w.Kind != DaemonSet {
		next.AlreadyQuiesced = true
		return Decision{Outcome: AlreadyQuiesced, Text: "was quiesced before, and stays so", Patch: &Patch{State: &next}}
	}
	next.Replicas, next.FieldManagers = w.Replicas, otherFieldManagers(w)
	return Decision{Outcome: Quiesced, Patch: &Patch{State: &next, Change: QuiesceField}}
}

// decideFurtherHold adds h to the holders of a workload that already has a state.
func decideFurtherHold(w Workload, s State, h Holder, now time.Time) Decision {
	mine, known := s.findHolder(h.UID, h.actionFilter())
	if w.IsQuiesced() {
		d := Decision{Outcome: Quiesced}
		if s.AlreadyQuiesced {
			d.Outcome, d.Text = AlreadyQuiesced, "was quiesced before, and stays so"
		}
		if !known || mine.WorkloadRan {
			next := s.withHolder(h, now)
			d.Patch = &Patch{State: &next}
		}
		return d
	}
	if s.Reverts >= MaxReverts {
		return Decision{Outcome: Reverted, Text: fmt.Sprintf(
			"was set %s %d times while it should be quiesced, last by %s: stop that writer first",
			w.describeValue(), s.Reverts+1, lastWriterName(w))}
	}
	s.Reverts++
	s = s.withWorkloadRan(h.UID)
	if s.AlreadyQuiesced {
		// Nothing was saved about it, and it runs now: that is the state to return to.
		return decideFirstHold(w, s, h, now)
	}
	next := s.withHolder(h, now)
	next.Replicas, next.FieldManagers = w.Replicas, otherFieldManagers(w) // whoever chose another number wants that number back
	return Decision{
		Outcome: Quiesced, Text: "was set " + w.describeValue() + " by " + lastWriterName(w) + ", and is quiesced again",
		Patch: &Patch{State: &next, Change: QuiesceField},
	}
}

// DecideRelease decides about a workload that the run with this UID releases through these of its
// actions; no actions means all.
func DecideRelease(w Workload, uid string, now time.Time, actions ...string) Decision {
	v := viewForRun(w, uid, actions)
	switch {
	case v.origin == originUnreadable && w.IsQuiesced():
		return unreadableStateDecision(v.err)
	case v.origin == originForeign && w.IsQuiesced():
		return Decision{Outcome: QuiescedByRestore, Text: "was restored in its quiesced form, and stays so"}
	case v.origin != originOwn || !v.isHolder:
		return notHeldDecision(v, uid)
	}
	d, others := Decision{}, v.withoutHolder(uid, actions, now)
	switch {
	case v.Expired:
		d = endedBeforeDecision(others)
	case len(others.ActiveHolders(now)) > 0:
		d = stillHeldDecision(w, others, now)
	default:
		d = decideLastRelease(w, others)
	}
	d.Holders = v.HolderUIDs()
	if d.RanWhileHeld = d.RanWhileHeld || v.workloadRan; v.workloadRan && w.IsQuiesced() {
		d.Text = strings.TrimSuffix("ran for a time while it should be quiesced, and "+d.Text, ", and ")
	}
	return d
}

// endedBeforeDecision keeps the state for the other holders that have not seen it yet.
func endedBeforeDecision(others State) Decision {
	d := Decision{Outcome: EndedBefore, Text: "was unquiesced earlier because maxQuiesceDuration had elapsed", Patch: &Patch{FieldManagers: others.FieldManagers}}
	if others.AlreadyQuiesced {
		d.Outcome, d.Text = AlreadyQuiesced, "was quiesced before, and stays so"
	}
	if len(others.Holders) > 0 {
		d.Patch.State = &others
	}
	return d
}

// stillHeldDecision leaves the workload quiesced for its other holders.
func stillHeldDecision(w Workload, others State, now time.Time) Decision {
	d := Decision{
		Outcome: StillHeld, Text: fmt.Sprintf("stays quiesced, %d more hold it", len(others.ActiveHolders(now))),
		Patch: &Patch{State: &others}, RanWhileHeld: !w.IsQuiesced(),
	}
	if d.RanWhileHeld {
		d.Text = "was set " + w.describeValue() + " in the meantime, by " + lastWriterName(w)
	}
	return d
}

// decideLastRelease unquiesces a workload without active holders. The state stays for runs whose
// holds expired and which continue: it tells them that the workload runs.
func decideLastRelease(w Workload, others State) Decision {
	d := decideUnquiesce(w, others, overwriterSinceQuiesce)
	d.RanWhileHeld = !w.IsQuiesced()
	if len(others.Holders) == 0 {
		return d
	}
	if others.Expired = true; d.RanWhileHeld || d.Outcome == Restored {
		others = others.withWorkloadRan("")
	}
	d.Patch.State = &others
	return d
}

// notHeldDecision is the decision about a workload that these actions of a run do not hold. Other
// actions of the run may hold it.
func notHeldDecision(v holderView, uid string) Decision {
	if action := v.holdingActions(uid); v.origin == originOwn && !v.Expired && action != "" {
		return Decision{Outcome: HeldByAction, Text: "stays quiesced until " + action + " unquiesces it", Holders: v.HolderUIDs()}
	}
	return Decision{Outcome: NotHeld}
}

// DecideRestored decides about a workload in a namespace that the Restore with this UID restored.
// It unquiesces what the Restore held itself, what was restored in its quiesced form, and what no
// run holds any longer. It leaves alone what others of this cluster hold, or other actions of the
// Restore.
func DecideRestored(w Workload, uid string, now time.Time, actions ...string) Decision {
	v := viewForRun(w, uid, actions)
	switch {
	case v.origin == originUnreadable && w.IsQuiesced():
		return unreadableStateDecision(v.err)
	case v.origin == originOwn && (v.isHolder || v.Expired || v.holdingActions(uid) != ""):
		return DecideRelease(w, uid, now, actions...)
	case v.origin == originOwn && len(v.ActiveHolders(now)) > 0:
		return Decision{Outcome: StillHeld, Text: "stays quiesced for others of this cluster", Holders: v.HolderUIDs()}
	case v.origin == originOwn, v.origin == originForeign:
		s := v.State
		s.FieldManagers = nil // they wrote the archived object
		return decideUnquiesce(w, s, overwriterSinceRestore)
	}
	return Decision{Outcome: NotHeld}
}

// ArchivedState returns the state of a workload from an archive, and whether the workload is
// stopped and ran before it was quiesced. It needs no metadata except the annotation.
func ArchivedState(w Workload) (State, bool) {
	s, whose, _ := readStateAnnotation(w)
	return s, whose == originForeign && w.IsQuiesced() && !s.AlreadyQuiesced
}

// DecideExpired decides about a workload that no run unquiesces. Runs with a UID in ended do not
// count and are not informed. The remaining state tells the other holders that their holds expired.
func DecideExpired(w Workload, now time.Time, ended ...string) Decision {
	s, whose, _ := readStateAnnotation(w)
	switch next, over := NextExpiration(w, now, ended...); {
	case whose != originOwn || s.Expired:
		return Decision{Outcome: NotHeld}
	case !over:
		return Decision{Outcome: StillHeld, Holders: s.HolderUIDs(), NextExpiration: next}
	}
	d := decideLastRelease(w, s.withoutRuns(ended))
	d.Holders = s.HolderUIDs()
	return d
}

// HolderUIDs returns the UIDs of the runs for which a workload is quiesced. It needs only the
// metadata.
func HolderUIDs(w Workload) []string {
	s, whose, _ := readStateAnnotation(w)
	if whose != originOwn || s.Expired {
		return nil
	}
	return s.HolderUIDs()
}

// NextExpiration returns when DecideExpired unquiesces a workload: now, if over is true, or at a
// later time; zero is never. It needs only the metadata.
func NextExpiration(w Workload, now time.Time, ended ...string) (next time.Time, over bool) {
	s, whose, _ := readStateAnnotation(w)
	if whose != originOwn || s.Expired {
		return time.Time{}, false
	}
	live := s.withoutRuns(ended).ActiveHolders(now)
	for _, h := range live {
		if h.Until.IsZero() {
			return time.Time{}, false // this hold has no limit
		}
		if h.Until.After(next) {
			next = h.Until
		}
	}
	return next, len(live) == 0
}

// decideUnquiesce unquiesces the workload unless others changed it in the meantime. by reports
// whether another writer set the same value.
func decideUnquiesce(w Workload, s State, by func(Workload) (string, bool)) Decision {
	d := Decision{Patch: &Patch{}, Holders: s.HolderUIDs()}
	other, taken := by(w)
	switch {
	case s.AlreadyQuiesced && w.IsQuiesced():
		d.Outcome, d.Text = AlreadyQuiesced, "was quiesced before, and stays so"
	case !w.IsQuiesced():
		d.Outcome, d.Text = ChangedSince, "was set "+w.describeValue()+" in the meantime, by "+lastWriterName(w)+", and stays so"
	case taken:
		d.Outcome, d.Text = ChangedSince, "was set "+w.describeValue()+" in the meantime, by "+other+", and stays so"
	default:
		d.Outcome, d.Patch.Change, d.Patch.Replicas, d.Patch.FieldManagers = Restored, RestoreField, s.Replicas, s.FieldManagers
	}
	return d
}

func unreadableStateDecision(err error) Decision {
	return Decision{Outcome: Unreadable, Text: fmt.Sprintf(
		"has an annotation %s that cannot be read (%v): remove it, and scale or resume the workload by hand", Annotation, err)}
}
