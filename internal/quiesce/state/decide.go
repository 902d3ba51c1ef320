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
	// Already means: it was quiesced before anybody held it, and stays so.
	Already Outcome = "AlreadyQuiesced"
	// Elsewhere means: it is quiesced as it was restored, or made what it was before. Nothing is
	// written.
	Elsewhere Outcome = "QuiescedByRestore"
	// Reverted means: somebody changes it back again and again. A failure.
	Reverted Outcome = "Reverted"
	// Expired means: its holder had it quiesced for as long as it may. A failure.
	Expired Outcome = "Expired"
	// Unreadable means: it is quiesced, and its state cannot be read. A failure.
	Unreadable Outcome = "Unreadable"
	// Restored means: it is given back.
	Restored Outcome = "Restored"
	// Released means: others hold it still.
	Released Outcome = "StillHeld"
	// HeldByAction means: this run holds it still, by another of its actions.
	HeldByAction Outcome = "HeldByAction"
	// Changed means: somebody changed it meanwhile, and it is left as it is.
	Changed Outcome = "ChangedSince"
	// Ended means: it was given back before its holder did so, as the time of that was over.
	Ended Outcome = "EndedBefore"
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
	// Holders are the UIDs of those that the state named before.
	Holders []string
	// Due is when Expire is to be asked again; zero if it need not.
	Due time.Time
	// Started says that it runs although who gives it back held it: what it stored meanwhile
	// may have changed while it was read.
	Started bool
}

// Quiesce decides what becomes of a workload that h wants quiesced.
func Quiesce(w Workload, h Holder, now time.Time) Decision {
	v := viewOf(w, h.UID, h.by())
	switch {
	case v.whose == unreadable && w.Quiesced():
		return unreadableState(v.err)
	case v.whose == own && v.known && (v.Ended || v.mine.Over(now)):
		return Decision{Outcome: Expired, Text: "was quiesced for as long as this run may: raise maxQuiesceDuration, or find out why it takes so long"}
	case v.whose == own && !v.Ended && (w.Quiesced() || len(v.Live(now)) > 0):
		return hold(w, v.State, h, now)
	case v.whose == foreign && w.Quiesced():
		return Decision{Outcome: Elsewhere, Text: "is quiesced as it was restored, and stays so"}
	case v.whose == own: // it was given back, or somebody started it and nobody counts any more
		return first(w, State{Holders: v.State.ran(h.UID).Holders}, h, now)
	}
	return first(w, State{}, h, now)
}

// first saves what is there and quiesces the workload. Only the holders and the count of
// reverts of s are kept.
func first(w Workload, s State, h Holder, now time.Time) Decision {
	next := State{Version: version, Kind: w.Kind, UID: w.UID, Reverts: s.Reverts, Holders: s.Holders}.with(h, now)
	// Nobody else parks a DaemonSet this way: its state was lost, and is known all the same.
	if w.Quiesced() && w.Kind != DaemonSet {
		next.Already = true
		return Decision{Outcome: Already, Text: "was quiesced before, and stays so", Patch: &Patch{State: &next}}
	}
	next.Replicas, next.Owners = w.Replicas, ownersOf(w)
	return Decision{Outcome: Quiesced, Patch: &Patch{State: &next, Value: Stop}}
}

// hold lets h hold a workload about which a state is saved.
func hold(w Workload, s State, h Holder, now time.Time) Decision {
	mine, known := s.holder(h.UID, h.by())
	if w.Quiesced() {
		d := Decision{Outcome: Quiesced}
		if s.Already {
			d.Outcome, d.Text = Already, "was quiesced before, and stays so"
		}
		if !known || mine.Ran {
			next := s.with(h, now)
			d.Patch = &Patch{State: &next}
		}
		return d
	}
	if s.Reverts >= MaxReverts {
		return Decision{Outcome: Reverted, Text: fmt.Sprintf(
			"was set %s %d times while it was to be quiesced, last by %s: stop what does that first",
			w.value(), s.Reverts+1, writer(w))}
	}
	s.Reverts++
	s = s.ran(h.UID)
	if s.Already {
		// Nothing was saved about it, and it runs now: that is what it has to get back.
		return first(w, s, h, now)
	}
	next := s.with(h, now)
	next.Replicas, next.Owners = w.Replicas, ownersOf(w) // who chose another number wants that one back
	return Decision{
		Outcome: Quiesced, Text: "was set " + w.value() + " by " + writer(w) + ", and is quiesced again",
		Patch: &Patch{State: &next, Value: Stop},
	}
}

// Release decides what becomes of a workload that the run with this UID gives back, by these of
// its actions; none are all.
func Release(w Workload, uid string, now time.Time, actions ...string) Decision {
	v := viewOf(w, uid, actions)
	switch {
	case v.whose == unreadable && w.Quiesced():
		return unreadableState(v.err)
	case v.whose == foreign && w.Quiesced():
		return Decision{Outcome: Elsewhere, Text: "is quiesced as it was restored, and stays so"}
	case v.whose != own || !v.known:
		return notHeld(v, uid)
	}
	d, others := Decision{}, v.without(uid, actions, now)
	switch {
	case v.Ended:
		d = endedBefore(others)
	case len(others.Live(now)) > 0:
		d = stillHeld(w, others, now)
	default:
		d = end(w, others)
	}
	d.Holders = v.UIDs()
	if d.Started = d.Started || v.ran; v.ran && w.Quiesced() {
		d.Text = strings.TrimSuffix("ran for a time while it was to be quiesced, and "+d.Text, ", and ")
	}
	return d
}

// endedBefore leaves the state to the others who have not seen it yet.
func endedBefore(others State) Decision {
	d := Decision{Outcome: Ended, Text: "was given back before, as maxQuiesceDuration was over", Patch: &Patch{Owners: others.Owners}}
	if others.Already {
		d.Outcome, d.Text = Already, "was quiesced before, and stays so"
	}
	if len(others.Holders) > 0 {
		d.Patch.State = &others
	}
	return d
}

// stillHeld leaves a workload to others.
func stillHeld(w Workload, others State, now time.Time) Decision {
	d := Decision{
		Outcome: Released, Text: fmt.Sprintf("stays quiesced, %d more hold it", len(others.Live(now))),
		Patch: &Patch{State: &others}, Started: !w.Quiesced(),
	}
	if d.Started {
		d.Text = "was set " + w.value() + " meanwhile, by " + writer(w)
	}
	return d
}

// end gives back a workload that nobody holds who counts. The state stays for those who held it
// until their time was over, and go on: they learn from it that it runs.
func end(w Workload, others State) Decision {
	d := giveBack(w, others, takenOver)
	d.Started = !w.Quiesced()
	if len(others.Holders) == 0 {
		return d
	}
	if others.Ended = true; d.Started || d.Outcome == Restored {
		others = others.ran("")
	}
	d.Patch.State = &others
	return d
}

// notHeld is what becomes of a workload that the actions of a run do not hold: others of it may.
func notHeld(v view, uid string) Decision {
	if action := v.heldBy(uid); v.whose == own && !v.Ended && action != "" {
		return Decision{Outcome: HeldByAction, Text: "stays quiesced until " + action + " gives it back", Holders: v.UIDs()}
	}
	return Decision{Outcome: NotHeld}
}

// Adopt decides what becomes of a workload in a namespace that a Restore with this UID
// restored. It gives back what the Restore held itself, what was restored in its quiesced
// form, and what nobody holds any more; not what others of this cluster hold, or other actions
// of the Restore.
func Adopt(w Workload, uid string, now time.Time, actions ...string) Decision {
	v := viewOf(w, uid, actions)
	switch {
	case v.whose == unreadable && w.Quiesced():
		return unreadableState(v.err)
	case v.whose == own && (v.known || v.Ended || v.heldBy(uid) != ""):
		return Release(w, uid, now, actions...)
	case v.whose == own && len(v.Live(now)) > 0:
		return Decision{Outcome: Released, Text: "stays quiesced for others of this cluster", Holders: v.UIDs()}
	case v.whose == own, v.whose == foreign:
		s := v.State
		s.Owners = nil // they wrote the object that was archived
		return giveBack(w, s, takenSince)
	}
	return Decision{Outcome: NotHeld}
}

// Archived says whether a workload that comes from an archive is stopped and ran before it was
// quiesced, and what it had then. It needs no metadata but the annotation.
func Archived(w Workload) (State, bool) {
	s, whose, _ := read(w)
	return s, whose == foreign && w.Quiesced() && !s.Already
}

// Expire decides what becomes of a workload if nobody gives it back. What is left of the state
// then tells the holders that their time is over.
func Expire(w Workload, now time.Time) Decision {
	s, whose, _ := read(w)
	switch next, over := Due(w, now); {
	case whose != own || s.Ended:
		return Decision{Outcome: NotHeld}
	case !over:
		return Decision{Outcome: Released, Holders: s.UIDs(), Due: next}
	}
	return end(w, s)
}

// Due says when Expire gives a workload back: now, if its time is over, or at a time to come;
// zero is never. It needs the metadata only.
func Due(w Workload, now time.Time) (next time.Time, over bool) {
	s, whose, _ := read(w)
	if whose != own || s.Ended {
		return time.Time{}, false
	}
	live := s.Live(now)
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

// giveBack undoes the quiescing where nobody changed the workload meanwhile. Whether somebody
// else wrote the same value is what by says.
func giveBack(w Workload, s State, by func(Workload) (string, bool)) Decision {
	d := Decision{Patch: &Patch{}, Holders: s.UIDs()}
	other, taken := by(w)
	switch {
	case s.Already && w.Quiesced():
		d.Outcome, d.Text = Already, "was quiesced before, and stays so"
	case !w.Quiesced():
		d.Outcome, d.Text = Changed, "was set "+w.value()+" meanwhile, by "+writer(w)+", and stays so"
	case taken:
		d.Outcome, d.Text = Changed, "was set "+w.value()+" meanwhile, by "+other+", and stays so"
	default:
		d.Outcome, d.Patch.Value, d.Patch.Replicas, d.Patch.Owners = Restored, Restore, s.Replicas, s.Owners
	}
	return d
}

func unreadableState(err error) Decision {
	return Decision{Outcome: Unreadable, Text: fmt.Sprintf(
		"has an annotation %s that cannot be read (%v): remove it, and scale or resume the workload by hand", Annotation, err)}
}
