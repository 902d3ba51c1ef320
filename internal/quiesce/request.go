// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// Policy says what becomes of workloads that somebody else would change back: objects of an
// operator, of Argo CD or Flux, of an autoscaler that scales from 0 on.
type Policy string

const (
	// Fail fails before anything is changed, and names them. It is the default: a quiesce
	// that is undone while the backup runs must not be reported as done.
	Fail Policy = "Fail"
	// Force quiesces them like others; they fail if they are changed back.
	Force Policy = "Force"
	// Skip leaves them running, and says so in the result.
	Skip Policy = "Skip"
)

// Origin says where the quiesced workloads come from that are given back.
type Origin string

const (
	// OriginCluster means: they were quiesced in this cluster, by the holder.
	OriginCluster Origin = "Cluster"
	// OriginRestored means: they were restored as they were archived, quiesced, and their holders were
	// in another cluster or another time. What the holder itself quiesced is given back, too.
	OriginRestored Origin = "Restored"
	// OriginUnfinished means: as Restored, but the Restore failed or was cancelled. What it restored may lack
	// its data, stays as it is and is named; what the holder itself quiesced is given back.
	OriginUnfinished Origin = "Unfinished"
)

// Request is one attempt.
type Request struct {
	// Key is the idempotency key of the attempts, and Attempt counts from 1. They are only
	// logged: what makes an attempt idempotent is Holder.
	Key     string
	Attempt int32
	// Holder is the UID of the Backup or Restore.
	Holder string
	// Action is the name of the action; "" is any of the run. Each holds for itself: the first
	// that gives back must not start what another one wants stopped.
	Action string
	// OtherActions are further actions of the run for which Unquiesce gives back.
	OtherActions []string
	// Namespaces are looked into. kube-system and its like, and the operator's own namespace,
	// are never quiesced.
	Namespaces []string
	// Selector chooses workloads by their labels; nil is all of them. A Job belongs to its
	// CronJob. Unquiesce does not use it: labels may change meanwhile.
	Selector labels.Selector
	// Kinds to quiesce; none is all. Unquiesce does not use it.
	Kinds []state.WorkloadKind
	// MaxQuiesceDuration is how long after Since the holder counts; zero is until Unquiesce.
	MaxQuiesceDuration time.Duration
	// Since is when the first attempt began; zero is now. It keeps later attempts from
	// holding longer.
	Since time.Time
	// WaitForPods makes Quiesce ask to be called again until no pod of the workloads runs.
	WaitForPods bool
	// WhenManaged is the policy for workloads that others manage; "" is Fail.
	WhenManaged Policy
	// Origin is for Unquiesce; "" is Cluster.
	Origin Origin
	// Outputs are what Quiesce returned for the same holder, if it is known. With them
	// Unquiesce also tells what is missing.
	Outputs map[string]string
}

// Outcome is what became of a workload. Beside those of package state there are the ones
// below.
type Outcome = state.Outcome

const (
	// LeftOut means: by the policy Skip.
	LeftOut Outcome = "LeftOut"
	// Protected means: a namespace that is never quiesced.
	Protected Outcome = "Protected"
	// RollingOut means: it is not quiesced yet, as a rollout goes on; the next call tries again.
	RollingOut Outcome = "RollingOut"
	// Refused means: it may not be quiesced. A failure.
	Refused Outcome = "Refused"
	// Failed means: the API server refused a read or a write. A failure.
	Failed Outcome = "Failed"
	// Contended means: it is changed all the time; the next call tries again.
	Contended Outcome = "Contended"
	// LeftStopped means: an unfinished Restore restored it in its quiesced form. Nothing is written.
	LeftStopped Outcome = "LeftStopped"
	// Gone means: it was deleted meanwhile.
	Gone Outcome = "Gone"
	// Lost means: it is quiesced, and what was saved about it is gone, or cannot be read.
	Lost Outcome = "Lost"
)

// Item is what became of one workload.
type Item struct {
	state.Ref
	Outcome Outcome
	// Text says more, as the end of a sentence that begins with the workload. It is
	// redacted, and may be "".
	Text string
	// Holders are the UIDs of those who held it before the call.
	Holders []string
	// RanWhileHeld says that it ran when its holder gave it back.
	RanWhileHeld bool
}

// String returns the workload and what became of it.
func (i Item) String() string {
	if i.Text == "" {
		return i.Ref.String() + ": " + string(i.Outcome)
	}
	return i.Ref.String() + " " + i.Text
}

// Result is what a call did. It is complete also beside an error.
type Result struct {
	// Message is one line for people, redacted, at most executor.MaxMessageLength bytes.
	Message string
	// Outputs of Quiesce are small: numbers, and the names of what was quiesced.
	Outputs map[string]string
	// RetryAfter is how long to wait before the next call; zero if all is done.
	RetryAfter time.Duration
	// Items are the workloads that the call was about, in order of kind, namespace and name.
	Items []Item
	// NextExpiration is when Overdue will have something to do, zero if nothing is held.
	NextExpiration time.Time
	// Warning is one line for whoever reads the backup, as Message is; "" if there is nothing to
	// warn of. It is said once, by the call that found it out.
	Warning string
	// Stopped is one line for people, as Message is: the workloads that stay quiesced, as what was
	// saved about them is lost, and what to do; "" if there is none.
	Stopped string
}

// Error is the type of all errors of a Quiescer.
type Error struct {
	// Kind is Invalid if nothing is changed, or not any more, and a retry is useless; Failed, Unreachable (only
	// the connection to the API server failed), Timeout or Interrupted (ctx ended) otherwise.
	Kind executor.ErrorKind
	// Text is one line for people, redacted, at most executor.MaxMessageLength bytes.
	Text string
	// Err is the cause; its text is not redacted.
	Err error
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func newInvalidError(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: executor.Invalid, Text: executor.OneLine(err.Error()), Err: err}
}

// validateFields refuses what nobody can do.
func (r Request) validateFields() error {
	if r.Holder == "" {
		return newInvalidError("the request does not say for which run it is")
	}
	if !slices.Contains([]Policy{"", Fail, Force, Skip}, r.WhenManaged) {
		return newInvalidError("the policy for managed workloads is %q: use %s, %s or %s", r.WhenManaged, Fail, Force, Skip)
	}
	if !slices.Contains([]Origin{"", OriginCluster, OriginRestored, OriginUnfinished}, r.Origin) {
		return newInvalidError("the origin of the workloads is %q: use %s, %s or %s", r.Origin, OriginCluster, OriginRestored, OriginUnfinished)
	}
	for _, kind := range r.Kinds {
		if !slices.Contains(state.WorkloadKinds(), kind) {
			return newInvalidError("workloads of kind %q cannot be quiesced: use some of %v", kind, state.WorkloadKinds())
		}
	}
	return nil
}

// actionsToRelease are those for which Unquiesce gives back; none are all.
func (r Request) actionsToRelease() []string {
	if r.Action == "" {
		return nil
	}
	return append([]string{r.Action}, r.OtherActions...)
}

// newHolder returns the holder that Quiesce adds.
func (r Request) newHolder(now time.Time) (state.Holder, error) {
	if r.MaxQuiesceDuration < 0 {
		return state.Holder{}, newInvalidError("maxQuiesceDuration is %s: it must be longer than zero", r.MaxQuiesceDuration)
	}
	since := r.Since
	if since.IsZero() {
		since = now
	}
	h := state.NewHolder(r.Holder, since, r.MaxQuiesceDuration)
	h.Action = r.Action
	if h.IsExpired(now) {
		return h, &Error{Kind: executor.Failed, Err: errQuiesceExpired, Text: "maxQuiesceDuration (" +
			r.MaxQuiesceDuration.String() + ") is over: raise it, or find out what takes so long"}
	}
	return h, nil
}

var errQuiesceExpired = errors.New("maxQuiesceDuration is over")
