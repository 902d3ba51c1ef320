// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

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
	// Annotation is the annotation of a workload that holds its State as JSON.
	Annotation = "grapnel.dev/quiesced"
	// Label marks workloads that have the annotation, so that they can be found without reading all
	// others. Its value is "true". No decision depends on it.
	Label = "grapnel.dev/quiesced"
	// stateVersion is the only version that is written and read.
	stateVersion = 1
)

// Holder is a run that wants a workload quiesced, through one of its actions.
type Holder struct {
	// UID is the UID of the Backup or Restore.
	UID string `json:"uid"`
	// Action is the name of the action; empty for any action of the run, as in states of releases
	// that did not record actions.
	Action string `json:"action,omitempty"`
	// Since is when the hold began.
	Since time.Time `json:"since"`
	// Until is when the hold expires; zero is never.
	Until time.Time `json:"until,omitzero"`
	// WorkloadRan is set if the workload ran after this holder quiesced it, because a user started
	// it or because all holds expired. What was read in the meantime may have changed.
	WorkloadRan bool `json:"ran,omitempty"`
}

// expiredHolderRetention is how long an expired holder is kept so that its run can learn what
// happened. Without this limit the holder of a deleted run would stay forever.
const expiredHolderRetention = 12 * time.Hour

// NewHolder returns a Holder that counts from since for at most the given time; zero is without
// limit. Times have a resolution of one second, and Until is rounded up.
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

// matchesRun reports whether the holder is the run with this UID, through one of these actions; no
// actions means any.
func (h Holder) matchesRun(uid string, actions []string) bool {
	return h.UID == uid && (h.Action == "" || len(actions) == 0 || slices.Contains(actions, h.Action))
}

// actionFilter returns the holder's action as an argument for matchesRun.
func (h Holder) actionFilter() []string {
	if h.Action == "" {
		return nil
	}
	return []string{h.Action}
}

// IsExpired reports whether the hold has expired.
func (h Holder) IsExpired(now time.Time) bool { return !h.Until.IsZero() && !now.Before(h.Until) }

// State is what is stored about a workload while it is quiesced.
type State struct {
	Version int `json:"v"`
	// Kind and UID identify the object that the state belongs to. Controllers copy annotations to
	// the objects that they create, and a restore copies them to another object.
	Kind WorkloadKind `json:"kind"`
	UID  string       `json:"uid"`
	// Replicas is the number of replicas before, or the number that a user has chosen since. It is
	// 0 if the kind has no replicas or if AlreadyQuiesced is set. The other kinds need no saved
	// value: their CronJobs and Jobs were not suspended, and the node selector of a DaemonSet keeps
	// its entries.
	Replicas int32 `json:"replicas,omitempty"`
	// AlreadyQuiesced is set if the workload was quiesced before the first hold.
	AlreadyQuiesced bool `json:"already,omitempty"`
	// Reverts counts how often others reverted the change.
	Reverts int `json:"reverts,omitempty"`
	// Expired is set if the workload was unquiesced because its holds expired. The state then
	// remains only to inform the holders: a run that still waits for pods must not quiesce the
	// workload again.
	Expired bool `json:"ended,omitempty"`
	// FieldManagers are the managers that had written the field before Grapnel, without their fields.
	// Unquiescing restores their ownership: it determines, for example, whether Flux applies the field.
	FieldManagers []metav1.ManagedFieldsEntry `json:"owners,omitempty"`
	// Holders are the runs that want the workload quiesced.
	Holders []Holder `json:"holders"`
}

// ActiveHolders returns the holders that have not expired.
func (s State) ActiveHolders(now time.Time) []Holder {
	return slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return h.IsExpired(now) })
}

// withoutRuns returns the state without the holders of runs with these UIDs.
func (s State) withoutRuns(uids []string) State {
	s.Holders = slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return slices.Contains(uids, h.UID) })
	return s
}

// withWorkloadRan returns the state with WorkloadRan set for all holders except those of one run;
// "" excepts none.
func (s State) withWorkloadRan(but string) State {
	s.Holders = slices.Clone(s.Holders)
	for i := range s.Holders {
		s.Holders[i].WorkloadRan = s.Holders[i].WorkloadRan || s.Holders[i].UID != but
	}
	return s
}

// HolderUIDs returns the UIDs of all runs that hold the workload.
func (s State) HolderUIDs() []string {
	uids := make([]string, 0, len(s.Holders))
	for _, h := range s.Holders {
		if !slices.Contains(uids, h.UID) {
			uids = append(uids, h.UID)
		}
	}
	return uids
}

// findHolder returns the holder that is the run with this UID, through one of these actions.
func (s State) findHolder(uid string, actions []string) (Holder, bool) {
	i := slices.IndexFunc(s.Holders, func(h Holder) bool { return h.matchesRun(uid, actions) })
	if i < 0 {
		return Holder{}, false
	}
	return s.Holders[i], true
}

// holdingActions returns the actions through which a run holds the workload; "" if there are none.
func (s State) holdingActions(uid string) string {
	var names []string
	for _, h := range s.Holders {
		if h.UID == uid && h.Action != "" {
			names = append(names, h.Action)
		}
	}
	return strings.Join(names, " and ")
}

// withHolder returns the state with h added, for which nothing was read yet. Expired holders stay,
// so that their runs learn about it at their end; their deadlines are not extended.
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

// withoutHolder returns the state without the holders of a run through these actions.
func (s State) withoutHolder(uid string, actions []string, now time.Time) State {
	s.Holders = slices.DeleteFunc(s.retainedHolders(now), func(h Holder) bool { return h.matchesRun(uid, actions) })
	return s
}

// retainedHolders returns the holders without those that expired longer ago than
// expiredHolderRetention.
func (s State) retainedHolders(now time.Time) []Holder {
	return slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return h.IsExpired(now.Add(-expiredHolderRetention)) })
}

// stateOrigin is where a state was written.
type stateOrigin int

const (
	// originNone: there is no usable state, or a controller copied it from another kind.
	originNone stateOrigin = iota
	// originUnreadable: there is a state that cannot be parsed.
	originUnreadable
	// originOwn: Grapnel wrote the state to this object.
	originOwn
	// originForeign: the state was written to another object, or before this one was restored. Its
	// holders do not count here.
	originForeign
)

// readStateAnnotation returns the state in the annotation of w. The error is non-nil if and only if
// the state cannot be read.
func readStateAnnotation(w Workload) (State, stateOrigin, error) {
	text, found := w.Annotations[Annotation]
	if !found {
		return State{}, originNone, nil
	}
	var s State
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return State{}, originUnreadable, errors.New("it is not valid JSON of the expected form")
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
	// runHolder is the holder of the run, if there is one.
	runHolder Holder
	isHolder  bool
	// workloadRan is set if the workload ran while the run held it through any of the actions.
	workloadRan bool
	err         error
}

// viewForRun reads the state of w for the run with this UID, and these of its actions. It counts a
// state as own if it names the run, whoever wrote it to this object last.
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

// validateContent returns an error if a field of the state has an impossible value.
func (s State) validateContent() error {
	scaled := s.Kind == Deployment || s.Kind == ReplicaSet || s.Kind == StatefulSet
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("it has version %d, this release reads version %d", s.Version, stateVersion)
	case !slices.Contains(workloadKinds, s.Kind) || s.UID == "":
		return errors.New("it does not name its object")
	case scaled && !s.AlreadyQuiesced && s.Replicas < 1:
		return fmt.Errorf("it records %d replicas", s.Replicas)
	}
	return nil
}
