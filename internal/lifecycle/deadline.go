// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Limits bound how long runs and their steps may take.
type Limits struct {
	// RunTimeout is how long a run may take from its recorded plan to its outcome, unless its
	// spec sets a timeout; 24 hours by default.
	RunTimeout time.Duration
	// StuckStepTimeout is how long a canceled step has to end before the outcome is decided
	// without it; a minute by default.
	StuckStepTimeout time.Duration
}

// WithDefaults returns the limits with zero values replaced by defaults.
func (l Limits) WithDefaults() Limits {
	return Limits{RunTimeout: cmp.Or(l.RunTimeout, 24*time.Hour), StuckStepTimeout: cmp.Or(l.StuckStepTimeout, time.Minute)}
}

// Validate returns an error that names the flag of the first invalid limit.
func (l Limits) Validate() error {
	switch {
	case l.RunTimeout <= 0:
		return fmt.Errorf("--default-run-timeout is %s: it must be longer than zero", l.RunTimeout)
	case l.StuckStepTimeout < time.Second:
		return fmt.Errorf("--stuck-step-timeout is %s: it must be at least 1s", l.StuckStepTimeout)
	}
	return nil
}

// shortStepTimeout is the timeout of steps that transfer little data. A step that exceeds it
// fails, and is retried where that makes sense.
const shortStepTimeout = 5 * time.Minute

// ShortStepTimeouts returns the timeouts of steps that transfer little data.
func ShortStepTimeouts(names ...string) map[string]time.Duration {
	timeouts := map[string]time.Duration{}
	for _, name := range names {
		timeouts[name] = shortStepTimeout
	}
	return timeouts
}

// deadlineError is the cause of canceling a run or step that took too long.
type deadlineError struct {
	what  string
	limit time.Duration
}

func (e *deadlineError) Error() string {
	return fmt.Sprintf("the deadline of %s of the %s has passed", e.limit, e.what)
}

// checkDeadline records whether the run has reached its deadline, or else requeues the run for
// that time. The clock of this machine alone ends no run, because it may be ahead.
func (d *Driver[T]) checkDeadline(ctx context.Context, s *Scope[T]) {
	if s.Object.Run().StartTimestamp == nil || IsFinished(s.Object) {
		return
	}
	limit, start := d.runTimeout(s.Object), startTimeOf(s.Object)
	age, sure := d.throttle.ageOfRun(s.Object.GetUID(), start, d.Now())
	if age >= limit && sure < limit {
		age = d.ageByServerTime(ctx, s.Object, start, limit)
	}
	if age < limit {
		s.RequeueAfter(limit - age)
		return
	}
	s.expired = &deadlineError{what: d.Kind.Name, limit: limit}
}

// startTimeOf returns when a run started. The clock that recorded the start may have been
// behind, so the start is never before the creation, which the API server recorded.
func startTimeOf(o Object) time.Time {
	start, created := o.Run().StartTimestamp.Time, o.GetCreationTimestamp().Time
	if start.Before(created) {
		return created
	}
	return start
}

// serverTimeRetryInterval is the time between two requests for the server time while they fail.
const serverTimeRetryInterval = time.Minute

// ageByServerTime returns how old a run is by the clock of the API server. While the server time
// is unknown, the run continues, for at most its timeout as measured by this process.
func (d *Driver[T]) ageByServerTime(ctx context.Context, o T, start time.Time, limit time.Duration) time.Duration {
	age, sure := limit-serverTimeRetryInterval, false
	serverNow, err := d.ServerTime(ctx, o.GetNamespace())
	if err == nil {
		age, sure = max(serverNow.Sub(start), 0), true
	} else {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the server time to check the deadline of a run failed")
	}
	d.throttle.setVerifiedAge(o.GetUID(), age, sure, d.Now())
	return age
}

// runTimeout returns how long a run may take. Unless its spec sets a timeout, the time that its
// operations are allowed is added to the default.
func (d *Driver[T]) runTimeout(o T) time.Duration {
	if timeout := o.RunTimeout(); timeout > 0 {
		return timeout
	}
	longest := time.Duration(0)
	for _, planned := range o.Run().ItemActions {
		timeout := d.Operations.Timeout
		if policy := planned.Operation; policy != nil && policy.Timeout != nil {
			timeout = policy.Timeout.Duration
		}
		longest = max(longest, cmp.Or(o.OperationTimeout(), timeout)+d.Operations.CancelTimeout)
	}
	return min(d.Limits.RunTimeout+longest, maxDuration)
}

// setStepTimeout sets the timeout of a step that has just started.
func (d *Driver[T]) setStepTimeout(s *Scope[T], name string) {
	if timeout := d.StepTimeouts[name]; timeout > 0 {
		d.steps.CancelAfter(stepID(s.Object.GetUID(), name), timeout, &deadlineError{what: "step " + name, limit: timeout})
	}
	d.cancelStepIfRequested(s, name)
}

// cancelStepIfRequested gives a step of a run that is being canceled a short time to end by
// itself. The step may still store something useful, but owed clean-up waits for it.
func (d *Driver[T]) cancelStepIfRequested(s *Scope[T], name string) {
	if s.IsCancelRequested() && !IsFinished(s.Object) {
		d.steps.CancelAfter(stepID(s.Object.GetUID(), name), d.Limits.StuckStepTimeout/4, errRunCanceled)
	}
}

// observeStep updates bookkeeping for a step that has started.
func (d *Driver[T]) observeStep(s *Scope[T], name string, outcome *runner.Outcome[any]) {
	if outcome == nil {
		d.cancelStepIfRequested(s, name)
		return
	}
	if errors.Is(outcome.Err, runner.ErrStuck) {
		d.Journal.ForgetWork(journalID(s.Object.GetUID(), name)) // it may hang forever, while other steps wait to run alone
	}
	if crashes := s.Object.Run().Crashes; outcome.Err == nil && crashes != nil && crashes.Step == name {
		s.Object.Run().Crashes = nil
	}
}

// EnforceWorkTimeout cancels the step that does the work of a run once it exceeds the timeout in
// the spec.
func (d *Driver[T]) EnforceWorkTimeout(s *Scope[T], step, what string) {
	id, limit := stepID(s.Object.GetUID(), step), s.Object.WorkTimeout()
	age, running := d.steps.RunningTime(id)
	switch {
	case limit <= 0:
	case !running:
		s.RequeueAfter(limit) // the step starts after this pass
	case age >= limit:
		d.steps.Cancel(id, &deadlineError{what: what, limit: limit})
	default:
		s.RequeueAfter(limit - age)
	}
}

// FailedOutcome returns the outcome of a run whose work returned an error. Its reason and
// message tell whether a user, a deadline, a crash or the work itself ended the run.
func (d *Driver[T]) FailedOutcome(s *Scope[T], what string, err error) Outcome {
	late, stuck := (*deadlineError)(nil), errors.Is(err, runner.ErrStuck)
	text := d.Redactor.String(err.Error())
	switch {
	case s.isCancelRequestedByUser():
		o := s.CancelledOutcome()
		if stuck {
			o.Message += "; " + d.stuckStepMessage(s) + ", and may still take effect later"
		}
		return o
	case stuck:
		return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonStoreStalled, fmt.Sprintf("%s: %s: %s; find out why, then create a new %s",
			what, d.stuckStepMessage(s), text, d.Kind.Name)}
	case errors.Is(err, objectstore.ErrStalled):
		return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonStoreStalled, what + ": " + text}
	case s.IsDeadlineExceeded():
		return s.CancelledOutcome()
	case errors.As(err, &late):
		return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonDeadlineExceeded, what + ": " + text + "; " + d.Kind.timeoutHint()}
	case errors.Is(err, errCrashed):
		return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonRunCrashed, what + ": " + text}
	}
	return Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonFailed, what + ": " + text}
}

// stuckStepMessage returns what a step that was left behind probably waits for.
func (d *Driver[T]) stuckStepMessage(s *Scope[T]) string {
	return fmt.Sprintf("the last step did not end when it was canceled, probably because BackupStorageLocation %s does not respond", d.Location(s.Object))
}

// timeoutHint returns how a user can give the next run more time.
func (k KindTraits) timeoutHint() string {
	if k.HasSingleHookPoint() {
		return "find out what takes so long, or raise the operator's flag --default-run-timeout, then create a new " + k.Name
	}
	return "find out what takes so long, or set spec.timeouts of the next " + k.Name
}

func journalID(uid types.UID, step string) string { return string(uid) + "." + step }
