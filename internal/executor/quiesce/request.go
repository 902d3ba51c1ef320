// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// Policy decides what happens to workloads that something else would start again: objects of an
// operator, of Argo CD or Flux, or of an autoscaler that scales up from 0.
type Policy string

const (
	// Fail fails before anything is changed, and names the workloads. It is the default: a quiesce
	// that is reverted during the backup must not be reported as done.
	Fail Policy = "Fail"
	// Force quiesces them like others, and fails if they are reverted.
	Force Policy = "Force"
	// Skip leaves them running and reports them in the result.
	Skip Policy = "Skip"
)

// Origin is where the workloads to unquiesce were quiesced.
type Origin string

const (
	// OriginCluster means that the holder quiesced them in this cluster.
	OriginCluster Origin = "Cluster"
	// OriginRestored means that they were restored in their quiesced form, and that their holders
	// belong to another cluster or an earlier time. What the holder itself quiesced is unquiesced,
	// too.
	OriginRestored Origin = "Restored"
	// OriginUnfinished is like OriginRestored after a Restore that failed or was canceled. What it
	// restored may lack its data; it stays as it is and is named. What the holder itself quiesced
	// is unquiesced.
	OriginUnfinished Origin = "Unfinished"
)

// Request describes one attempt.
type Request struct {
	// Key is the idempotency key of the action, and Attempt counts from 1. They are only logged;
	// Holder makes an attempt idempotent.
	Key     string
	Attempt int32
	// Holder is the UID of the Backup or Restore.
	Holder string
	// Action is the name of the action; empty for any action of the run. Each action is a holder of
	// its own: the first one to unquiesce must not start what another one still wants stopped.
	Action string
	// OtherActions are further actions of the run whose holds Unquiesce releases.
	OtherActions []string
	// Namespaces are the namespaces to quiesce. System namespaces like kube-system and the
	// operator's own namespace are never quiesced.
	Namespaces []string
	// Selector selects workloads by their labels; nil selects all. A Job belongs to its CronJob.
	// Unquiesce ignores Selector, because labels may change in the meantime.
	Selector labels.Selector
	// Kinds are the kinds to quiesce; empty for all. Unquiesce ignores Kinds.
	Kinds []WorkloadKind
	// MaxQuiesceDuration is how long after Since the holder counts; zero is until Unquiesce.
	MaxQuiesceDuration time.Duration
	// Since is when the first attempt began; zero is now. It keeps later attempts from extending
	// the hold.
	Since time.Time
	// WaitForPods makes Quiesce request further calls until no pod of the workloads runs.
	WaitForPods bool
	// WhenManaged is the policy for workloads that something else manages; "" is Fail.
	WhenManaged Policy
	// Origin applies to Unquiesce; "" is OriginCluster.
	Origin Origin
	// Outputs are what Quiesce returned for the same holder, if known. With them Unquiesce also
	// reports missing workloads.
	Outputs map[string]string
}

// Item is the result for one workload.
type Item struct {
	Ref
	Outcome Outcome
	// Text adds details, as the end of a sentence that begins with the workload. It is redacted and
	// may be empty.
	Text string
	// Holders are the UIDs of the runs that held the workload before the call.
	Holders []string
	// RanWhileHeld is set if the workload ran when its holder released it.
	RanWhileHeld bool
}

// String returns the workload and its outcome.
func (i Item) String() string {
	if i.Text == "" {
		return i.Ref.String() + ": " + string(i.Outcome)
	}
	return i.Ref.String() + " " + i.Text
}

// Result is the result of a call. It is complete even if the call returns an error.
type Result struct {
	// Message is one redacted line for users, of at most executor.MaxMessageLength bytes.
	Message string
	// Outputs of Quiesce are small: counts, and the names of the quiesced workloads.
	Outputs map[string]string
	// RetryAfter is how long to wait before the next call; zero if everything is done.
	RetryAfter time.Duration
	// Items are the workloads of the call, sorted by kind, namespace and name.
	Items []Item
	// NextExpiration is when ReleaseExpired will have something to do; zero if nothing is held.
	NextExpiration time.Time
	// Warning is one line for readers of the backup, formatted like Message; empty if there is
	// nothing to warn of. Only the call that detects the problem returns it.
	Warning string
	// Stopped is one line for users, formatted like Message. It names the workloads that stay
	// quiesced because their saved state was lost, and what to do; empty if there are none.
	Stopped string
}

// Error is the type of all errors of a Quiescer.
type Error struct {
	// Kind is Invalid if nothing is changed, or no longer changed, and a retry is useless.
	// Otherwise it is Failed, Unreachable (only the connection to the API server failed), Timeout,
	// or Interrupted (ctx ended).
	Kind executor.ErrorKind
	// Text is one redacted line for users, of at most executor.MaxMessageLength bytes.
	Text string
	// Err is the cause; its text is not redacted.
	Err error
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// actionsToRelease returns the actions whose holds Unquiesce releases; none means all.
func (r Request) actionsToRelease() []string {
	if r.Action == "" {
		return nil
	}
	return append([]string{r.Action}, r.OtherActions...)
}

// newHolder returns the holder that Quiesce adds.
func (r Request) newHolder(now time.Time) (Holder, error) {
	since := r.Since
	if since.IsZero() {
		since = now
	}
	h := NewHolder(r.Holder, since, r.MaxQuiesceDuration)
	h.Action = r.Action
	if h.IsExpired(now) {
		return h, &Error{Kind: executor.Failed, Err: errQuiesceExpired, Text: "maxQuiesceDuration (" +
			r.MaxQuiesceDuration.String() + ") has elapsed: raise it, or find out what takes so long"}
	}
	return h, nil
}

var errQuiesceExpired = errors.New("maxQuiesceDuration has elapsed")
