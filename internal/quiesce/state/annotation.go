// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Annotation of a workload holds its State as JSON.
	Annotation = "grapnel.dev/quiesced"
	// Label marks workloads that have the annotation, so that they are found without reading
	// all others. Its value is "true". It decides nothing.
	Label = "grapnel.dev/quiesced"
	// stateVersion is the one that is written, and the only one that is read.
	stateVersion = 1
)

// Holder is a run that wants a workload quiesced, by one of its actions.
type Holder struct {
	// UID is the UID of the Backup or Restore.
	UID string `json:"uid"`
	// Action is the name of the action; "" is any of the run, as in states of releases that
	// knew none.
	Action string `json:"action,omitempty"`
	// Since is when it wanted that.
	Since time.Time `json:"since"`
	// Until is when it does not count any more; zero is never.
	Until time.Time `json:"until,omitzero"`
	// WorkloadRan says that the workload ran after this one had it quiesced, as somebody started it or the
	// time of all was over: what was read meanwhile may have changed.
	WorkloadRan bool `json:"ran,omitempty"`
}

// expiredHolderRetention is how long a holder that does not count any more is kept for what it has to be told.
// A run that is gone would be kept for ever.
const expiredHolderRetention = 12 * time.Hour

// NewHolder returns a Holder from since on for at most the given time; zero is for any time.
// Times are held in whole seconds; the deadline is not earlier than asked for.
func NewHolder(uid string, since time.Time, most time.Duration) Holder {
	if most <= 0 {
		return Holder{UID: uid, Since: since.UTC().Truncate(time.Second)}
	}
	until := since.Add(most)
	if whole := until.Truncate(time.Second); whole.Before(until) {
		until = whole.Add(time.Second)
	}
	return Holder{UID: uid, Since: since.UTC().Truncate(time.Second), Until: until.UTC()}
}

// matchesRun says whether the holder is a run with this UID, by one of these actions; none are all.
func (h Holder) matchesRun(uid string, actions []string) bool {
	return h.UID == uid && (h.Action == "" || len(actions) == 0 || slices.Contains(actions, h.Action))
}

// actionFilter returns the action of a holder as those that is asks for.
func (h Holder) actionFilter() []string {
	if h.Action == "" {
		return nil
	}
	return []string{h.Action}
}

// IsExpired says whether the holder does not count any more.
func (h Holder) IsExpired(now time.Time) bool { return !h.Until.IsZero() && !now.Before(h.Until) }

// State is what is remembered about a workload while it is quiesced.
type State struct {
	Version int `json:"v"`
	// Kind and UID say of which object it is: controllers copy annotations to the objects
	// that they make, and a restore brings them to another object.
	Kind WorkloadKind `json:"kind"`
	UID  string       `json:"uid"`
	// Replicas is how many there were, or how many somebody wanted since; 0 if the kind has none, or if Already is set. The
	// other kinds need nothing saved: what was not suspended was not suspended, and the
	// node selector of a DaemonSet keeps what it had.
	Replicas int32 `json:"replicas,omitempty"`
	// AlreadyQuiesced says that it was quiesced before the first holder came.
	AlreadyQuiesced bool `json:"already,omitempty"`
	// Reverts is how often somebody changed it back meanwhile.
	Reverts int `json:"reverts,omitempty"`
	// Expired says that it was given back because the time of its holders was over. It only
	// stays to tell them so: a run that still waits for pods must not quiesce it again.
	Expired bool `json:"ended,omitempty"`
	// FieldManagers are those who had written the field before Grapnel did. It is theirs again when it
	// is given back: whether Flux applies a field is told by that.
	FieldManagers []FieldManager `json:"owners,omitempty"`
	// Holders are those who want it quiesced.
	Holders []Holder `json:"holders"`
}

// FieldManager is who wrote a field, as the API server noted it.
type FieldManager struct {
	Manager     string                            `json:"manager"`
	Operation   metav1.ManagedFieldsOperationType `json:"operation"`
	Subresource string                            `json:"subresource,omitempty"`
	APIVersion  string                            `json:"apiVersion"`
	Time        *metav1.Time                      `json:"time,omitempty"`
}

// ActiveHolders returns the holders that count.
func (s State) ActiveHolders(now time.Time) []Holder {
	var live []Holder
	for _, h := range s.Holders {
		if !h.IsExpired(now) {
			live = append(live, h)
		}
	}
	return live
}

// withoutRuns returns the state without the holders that are runs with these HolderUIDs.
func (s State) withoutRuns(uids []string) State {
	s.Holders = slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return slices.Contains(uids, h.UID) })
	return s
}

// withWorkloadRan returns the state with that note for all holders but those of one run; "" is none.
func (s State) withWorkloadRan(but string) State {
	s.Holders = slices.Clone(s.Holders)
	for i := range s.Holders {
		s.Holders[i].WorkloadRan = s.Holders[i].WorkloadRan || s.Holders[i].UID != but
	}
	return s
}

// HolderUIDs returns the HolderUIDs of all runs that hold it.
func (s State) HolderUIDs() []string {
	uids := make([]string, 0, len(s.Holders))
	for _, h := range s.Holders {
		if !slices.Contains(uids, h.UID) {
			uids = append(uids, h.UID)
		}
	}
	return uids
}

// findHolder returns the holder that is the run with this UID, by one of these actions.
func (s State) findHolder(uid string, actions []string) (Holder, bool) {
	i := slices.IndexFunc(s.Holders, func(h Holder) bool { return h.matchesRun(uid, actions) })
	if i < 0 {
		return Holder{}, false
	}
	return s.Holders[i], true
}

// holdingActions returns the actions of a run that hold, "" if there are none.
func (s State) holdingActions(uid string) string {
	var names []string
	for _, h := range s.Holders {
		if h.UID == uid && h.Action != "" {
			names = append(names, h.Action)
		}
	}
	return strings.Join(names, " and ")
}

// withHolder returns the state with h, for which nothing was read yet. Holders that do not count stay, so
// that they are told at their end; their time is not made longer.
func (s State) withHolder(h Holder, now time.Time) State {
	known := false
	s.Holders = s.retainedHolders(now)
	for i := range s.Holders {
		if s.Holders[i].matchesRun(h.UID, h.actionFilter()) {
			s.Holders[i].WorkloadRan, known = false, true
		}
	}
	if !known {
		s.Holders = append(s.Holders, h)
	}
	return s
}

// withoutHolder returns the state without the holders that are a run, by these of its actions.
func (s State) withoutHolder(uid string, actions []string, now time.Time) State {
	s.Holders = slices.DeleteFunc(s.retainedHolders(now), func(h Holder) bool { return h.matchesRun(uid, actions) })
	return s
}

// retainedHolders returns the holders without those of whom nobody is left to be told anything.
func (s State) retainedHolders(now time.Time) []Holder {
	return slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return h.IsExpired(now.Add(-expiredHolderRetention)) })
}

// stateOrigin is whose a state is.
type stateOrigin int

const (
	// originNone: there is none that says anything, or a controller copied it from another kind.
	originNone stateOrigin = iota
	// originUnreadable: there is one, and nobody knows what it says.
	originUnreadable
	// originOwn: it was written to this object.
	originOwn
	// originForeign: it was written to another object, or before this one was restored. Its
	// holders mean nothing here.
	originForeign
)

// readStateAnnotation returns the state in the annotation of w. The error is not nil if, and only if, it
// cannot be read.
func readStateAnnotation(w Workload) (State, stateOrigin, error) {
	text, found := w.Annotations[Annotation]
	if !found {
		return State{}, originNone, nil
	}
	var s State
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return State{}, originUnreadable, errors.New("it is no JSON of the expected form")
	}
	here := s.UID == w.UID && isStateWrittenHere(w)
	switch err := s.validateContent(); {
	case err != nil:
		return State{}, originUnreadable, err
	case s.Kind != w.Kind, s.Expired && !here:
		return State{}, originNone, nil
	case !here:
		return s, originForeign, nil
	}
	return s, originOwn, nil
}

// holderView is a state as one run sees it.
type holderView struct {
	State
	origin stateOrigin
	// runHolder is the run as a holder, if it is known as one.
	runHolder Holder
	isHolder  bool
	// workloadRan says that the workload ran while the run held it, by any of the actions.
	workloadRan bool
	err         error
}

// viewForRun reads the state of w for the run with this UID, and these actions of it. Whoever wrote
// it to this object last: a run that it names, and that looks at it now, is meant.
func viewForRun(w Workload, uid string, actions []string) holderView {
	var v holderView
	v.State, v.origin, v.err = readStateAnnotation(w)
	v.runHolder, v.isHolder = v.findHolder(uid, actions)
	v.workloadRan = slices.ContainsFunc(v.Holders, func(h Holder) bool { return h.matchesRun(uid, actions) && h.WorkloadRan })
	if v.origin == originForeign && v.isHolder && v.UID == w.UID {
		v.origin = originOwn
	}
	return v
}

// validateContent says what of a state cannot be.
func (s State) validateContent() error {
	scaled := s.Kind == Deployment || s.Kind == ReplicaSet || s.Kind == StatefulSet
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("it has version %d, this release reads version %d", s.Version, stateVersion)
	case !slices.Contains(WorkloadKinds(), s.Kind) || s.UID == "":
		return errors.New("it does not say which object it is about")
	case scaled && !s.AlreadyQuiesced && s.Replicas < 1:
		return fmt.Errorf("it says that there were %d replicas", s.Replicas)
	}
	return nil
}
