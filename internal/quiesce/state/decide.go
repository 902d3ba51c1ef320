// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"time"
)

// MaxReverts is how often a workload that somebody changed back is quiesced again before that
// counts as a failure.
const MaxReverts = 3

// Outcome is what becomes of a workload.
type Outcome string

const (
	// Quiesced means: it is quiesced by this write, or by an earlier one for the same holder.
	Quiesced Outcome = "Quiesced"
	// AlreadyQuiesced means: it was quiesced before anybody held it, and stays so.
	AlreadyQuiesced Outcome = "AlreadyQuiesced"
	// QuiescedByRestore means: it is quiesced as it was restored, or made what it was before. Nothing is
	// written.
	QuiescedByRestore Outcome = "QuiescedByRestore"
	// Reverted means: somebody changes it back again and again. A failure.
	Reverted Outcome = "Reverted"
	// Expired means: its holder had it quiesced for as long as it may. A failure.
	Expired Outcome = "Expired"
	// Unreadable means: it is quiesced, and its state cannot be read. It cannot be held, which is a
	// failure, nor given back.
	Unreadable Outcome = "Unreadable"
	// Restored means: it is given back.
	Restored Outcome = "Restored"
	// StillHeld means: others hold it still.
	StillHeld Outcome = "StillHeld"
	// HeldByAction means: this run holds it still, by another of its actions.
	HeldByAction Outcome = "HeldByAction"
	// ChangedSince means: somebody changed it meanwhile, and it is left as it is.
	ChangedSince Outcome = "ChangedSince"
	// EndedBefore means: it was given back before its holder did so, as the time of that was over.
	EndedBefore Outcome = "EndedBefore"
	// NotHeld means: it is not held by who gives it back.
	NotHeld Outcome = "NotHeld"
)

// Decision is what becomes of a workload, and how.
type Decision struct {
	Outcome Outcome
	// Text says more, as the end of a sentence that begins with the workload; it may be "".
	Text string
	// Patch makes it so; nil if nothing is to be written.
	Patch *Patch
	// Holders are the HolderUIDs of those that the state named before.
	Holders []string
	// NextExpiration is when Expire is to be asked again; zero if it need not.
	NextExpiration time.Time
	// RanWhileHeld says that it runs although who gives it back held it: what it stored meanwhile
	// may have changed while it was read.
	RanWhileHeld bool
}

// DecideQuiesce decides what becomes of a workload that h wants quiesced.
func DecideQuiesce(w Workload, h Holder, now time.Time) Decision {
	v := viewForRun(w, h.UID, h.actionFilter())
	switch {
	case v.origin == originUnreadable && w.IsQuiesced():
		return unreadableStateDecision(v.err)
	case v.origin == originOwn && v.isHolder && (v.Expired || v.runHolder.IsExpired(now)):
		return Decision{Outcome: Expired, Text: "was quiesced for as long as this run may: raise maxQuiesceDuration, or find out why it takes so long"}
	case v.origin == originOwn && !v.Expired && (w.IsQuiesced() || len(v.ActiveHolders(now)) > 0):
		return decideFurtherHold(w, v.State, h, now)
	case v.origin == originForeign && w.IsQuiesced():
		return Decision{Outcome: QuiescedByRestore, Text: "is quiesced as it was restored, and stays so"}
	case v.origin == originOwn: // it was given back, or somebody started it and nobody counts any more
		return decideFirstHold(w, State{Holders: v.State.withWorkloadRan(h.UID).Holders}, h, now)
	}
	return decideFirstHold(w, State{}, h, now)
}

// decideFirstHold saves what is there and quiesces the workload. Only the holders and the count of
// reverts of s are kept.
func decideFirstHold(w Workload, s State, h Holder, now time.Time) Decision {
	next := State{Version: stateVersion, Kind: w.Kind, UID: w.UID, Reverts: s.Reverts, Holders: s.Holders}.withHolder(h, now)
	// Nobody else parks a DaemonSet this way: its state was lost, and is known all the same.
	if w.IsQuiesced() && w.Kind != DaemonSet {
		next.AlreadyQuiesced = true
		return Decision{Outcome: AlreadyQuiesced, Text: "was quiesced before, and stays so", Patch: &Patch{State: &next}}
	}
	next.Replicas, next.FieldManagers = w.Replicas, otherFieldManagers(w)
	return Decision{Outcome: Quiesced, Patch: &Patch{State: &next, Change: QuiesceField}}
}

// decideFurtherHold lets h hold a workload about which a state is saved.
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
			"was set %s %d times while it was to be quiesced, last by %s: stop what does that first",
			w.describeValue(), s.Reverts+1, lastWriterName(w))}
	}
	s.Reverts++
	s = s.withWorkloadRan(h.UID)
	if s.AlreadyQuiesced {
		// Nothing was saved about it, and it runs now: that is what it has to get back.
		return decideFirstHold(w, s, h, now)
	}
	next := s.withHolder(h, now)
	next.Replicas, next.FieldManagers = w.Replicas, otherFieldManagers(w) // who chose another number wants that one back
	return Decision{
		Outcome: Quiesced, Text: "was set " + w.describeValue() + " by " + lastWriterName(w) + ", and is quiesced again",
		Patch: &Patch{State: &next, Change: QuiesceField},
	}
}

// DecideRelease decides what becomes of a workload that the run with this UID gives back, by these of
// its actions; none are all.
func DecideRelease(w Workload, uid string, now time.Time, actions ...string) Decision {
	v := viewForRun(w, uid, actions)
	switch {
	case v.origin == originUnreadable && w.IsQuiesced():
		return unreadableStateDecision(v.err)
	case v.origin == originForeign && w.IsQuiesced():
		return Decision{Outcome: QuiescedByRestore, Text: "is quiesced as it was restored, and stays so"}
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
		d.Text = strings.TrimSuffix("ran for a time while it was to be quiesced, and "+d.Text, ", and ")
	}
	return d
}

// endedBeforeDecision leaves the state to the others who have not seen it yet.
func endedBeforeDecision(others State) Decision {
	d := Decision{Outcome: EndedBefore, Text: "was given back before, as maxQuiesceDuration was over", Patch: &Patch{FieldManagers: others.FieldManagers}}
	if others.AlreadyQuiesced {
		d.Outcome, d.Text = AlreadyQuiesced, "was quiesced before, and stays so"
	}
	if len(others.Holders) > 0 {
		d.Patch.State = &others
	}
	return d
}

// stillHeldDecision leaves a workload to others.
func stillHeldDecision(w Workload, others State, now time.Time) Decision {
	d := Decision{
		Outcome: StillHeld, Text: fmt.Sprintf("stays quiesced, %d more hold it", len(others.ActiveHolders(now))),
		Patch: &Patch{State: &others}, RanWhileHeld: !w.IsQuiesced(),
	}
	if d.RanWhileHeld {
		d.Text = "was set " + w.describeValue() + " meanwhile, by " + lastWriterName(w)
	}
	return d
}

// decideLastRelease gives back a workload that nobody holds who counts. The state stays for those who held it
// until their time was over, and go on: they learn from it that it runs.
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

// notHeldDecision is what becomes of a workload that the actions of a run do not hold: others of it may.
func notHeldDecision(v holderView, uid string) Decision {
	if action := v.holdingActions(uid); v.origin == originOwn && !v.Expired && action != "" {
		return Decision{Outcome: HeldByAction, Text: "stays quiesced until " + action + " gives it back", Holders: v.HolderUIDs()}
	}
	return Decision{Outcome: NotHeld}
}

// DecideRestored decides what becomes of a workload in a namespace that a Restore with this UID
// restored. It gives back what the Restore held itself, what was restored in its quiesced
// form, and what nobody holds any more; not what others of this cluster hold, or other actions
// of the Restore.
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
		s.FieldManagers = nil // they wrote the object that was archived
		return decideUnquiesce(w, s, overwriterSinceRestore)
	}
	return Decision{Outcome: NotHeld}
}

// ArchivedState says whether a workload that comes from an archive is stopped and ran before it was
// quiesced, and what it had then. It needs no metadata but the annotation.
func ArchivedState(w Workload) (State, bool) {
	s, whose, _ := readStateAnnotation(w)
	return s, whose == originForeign && w.IsQuiesced() && !s.AlreadyQuiesced
}

// DecideExpired decides what becomes of a workload if nobody gives it back. The runs with the HolderUIDs in
// ended do not count, and are told nothing. What is left of the state then tells the other
// holders that their time is over.
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

// HolderUIDs returns the HolderUIDs of the runs for which a workload is quiesced. It needs the metadata
// only.
func HolderUIDs(w Workload) []string {
	s, whose, _ := readStateAnnotation(w)
	if whose != originOwn || s.Expired {
		return nil
	}
	return s.HolderUIDs()
}

// NextExpiration says when Expire gives a workload back: now, if its time is over, or at a time to come;
// zero is never. It needs the metadata only.
func NextExpiration(w Workload, now time.Time, ended ...string) (next time.Time, over bool) {
	s, whose, _ := readStateAnnotation(w)
	if whose != originOwn || s.Expired {
		return time.Time{}, false
	}
	live := s.withoutRuns(ended).ActiveHolders(now)
	for _, h := range live {
		if h.Until.IsZero() {
			return time.Time{}, false // it may hold it for any time
		}
		if h.Until.After(next) {
			next = h.Until
		}
	}
	return next, len(live) == 0
}

// decideUnquiesce undoes the quiescing where nobody changed the workload meanwhile. Whether somebody
// else wrote the same value is what by says.
func decideUnquiesce(w Workload, s State, by func(Workload) (string, bool)) Decision {
	d := Decision{Patch: &Patch{}, Holders: s.HolderUIDs()}
	other, taken := by(w)
	switch {
	case s.AlreadyQuiesced && w.IsQuiesced():
		d.Outcome, d.Text = AlreadyQuiesced, "was quiesced before, and stays so"
	case !w.IsQuiesced():
		d.Outcome, d.Text = ChangedSince, "was set "+w.describeValue()+" meanwhile, by "+lastWriterName(w)+", and stays so"
	case taken:
		d.Outcome, d.Text = ChangedSince, "was set "+w.describeValue()+" meanwhile, by "+other+", and stays so"
	default:
		d.Outcome, d.Patch.Change, d.Patch.Replicas, d.Patch.FieldManagers = Restored, RestoreField, s.Replicas, s.FieldManagers
	}
	return d
}

func unreadableStateDecision(err error) Decision {
	return Decision{Outcome: Unreadable, Text: fmt.Sprintf(
		"has an annotation %s that cannot be read (%v): remove it, and scale or resume the workload by hand", Annotation, err)}
}
