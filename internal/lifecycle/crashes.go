// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// maxCrashes is how often in a row one step of a run may crash the operator. The last attempt
// runs alone, to avoid blaming a run that was only active while another one crashed the
// operator.
const maxCrashes = 3

// maxUnisolatedCrashes is the limit for a step that never crashed alone: newer work may have
// caused those crashes. Such work has to wait for its turn as well, after as many crashes as the
// difference between the two limits.
const maxUnisolatedCrashes = 5

var errCrashed = errors.New("the operator crashed")

// IsCrashed reports whether a step failed because it has crashed the operator too often.
func IsCrashed(err error) bool { return errors.Is(err, errCrashed) }

// isolationRetryInterval is the time between two attempts to become the run that is tried alone.
const isolationRetryInterval = 5 * time.Second

// isolationTimeout is how long a run that has called Pre actions waits for its turn. Its
// application may be down meanwhile.
const isolationTimeout = 10 * time.Minute

// countCrash counts a crash of the operator in a step of a run, once. It returns an error if
// that crash was the last one allowed. See docs/adr/0013.
func (d *Driver[T]) countCrash(s *Scope[T], step string) error {
	status, id := s.Object.Run(), journalID(s.Object.GetUID(), step)
	if d.Journal.HasCrashed(id) && !s.countedCrashes[step] {
		if s.countedCrashes == nil {
			s.countedCrashes = map[string]bool{}
		}
		s.countedCrashes[step] = true
		crashes := v1alpha1.StepCrashes{Step: step}
		if status.Crashes != nil && status.Crashes.Step == step {
			crashes = *status.Crashes
		}
		crashes.Count++
		status.Crashes = &crashes
		s.AfterStatusUpdate(func(context.Context) error {
			d.Journal.ForgetCrash(id)
			return nil
		})
	}
	if c := status.Crashes; c != nil && c.Step == step && (c.Count >= maxUnisolatedCrashes || c.Count >= maxCrashes && d.Journal.HasCrashedAlone(id)) {
		return fmt.Errorf("%w %d times in the step %s of this %s; the log of the crashed operator, and its last state "+
			"(OOMKilled, or a panic), show why: increase its memory limit, exclude the object that the log names, or report a bug; then create a new %s",
			errCrashed, c.Count, step, d.Kind.Name, d.Kind.Name)
	}
	if c := status.Crashes; c != nil && d.throttle.isStepRefused(s.Object.GetUID(), step) {
		return fmt.Errorf("%w %d times in the step %s of this %s, and the last attempt, which runs alone, could not start within %s, "+
			"because another run that crashed the operator is still active; the clean-up does not wait any longer; create a new %s when that run has finished",
			errCrashed, c.Count, step, d.Kind.Name, isolationTimeout, d.Kind.Name)
	}
	return nil
}

// AttemptAdmission is the result of AdmitAttempt.
type AttemptAdmission int

const (
	// AttemptAdmitted means that a new attempt may start.
	AttemptAdmitted AttemptAdmission = iota
	// AttemptHeld means that the attempt has to wait; the status says for what.
	AttemptHeld
	// AttemptRefused means that no further attempt is allowed; ExecuteStep returns the error.
	AttemptRefused
)

// AdmitAttempt decides whether a long step may start a new attempt. After a start of the
// operator, owed clean-up of other runs takes precedence.
func (d *Driver[T]) AdmitAttempt(ctx context.Context, s *Scope[T], step string) (AttemptAdmission, error) {
	if err := d.countCrash(s, step); err != nil {
		return AttemptRefused, nil //nolint:nilerr // ExecuteStep returns it
	}
	waits, err := d.shouldAwaitCleanup(ctx)
	switch c := s.Object.Run().Crashes; {
	case err != nil:
		return AttemptHeld, err
	case waits:
		s.MarkRunning(v1alpha1.ReasonWaitingForCleanup, "Waiting briefly until owed clean-up of other runs was attempted, because the operator has just started")
		s.RequeueAfter(cleanupGatePollInterval)
		return AttemptHeld, nil
	case c != nil && c.Step == step && c.Count >= maxCrashes-1 && !d.Journal.ReserveExclusive(journalID(s.Object.GetUID(), step)):
		return d.awaitIsolation(s, step), nil
	}
	return AttemptAdmitted, nil
}

// awaitIsolation makes a step wait until it may run alone. If the run has called Pre actions,
// the wait is limited by isolationTimeout.
func (d *Driver[T]) awaitIsolation(s *Scope[T], step string) AttemptAdmission {
	if since := d.throttle.recordIsolationWait(s.Object.GetUID(), d.Now()); since >= isolationTimeout && HasStartedHookRun(s.Pre) {
		d.throttle.markStepRefused(s.Object.GetUID(), step)
		return AttemptRefused
	}
	s.MarkRunning(v1alpha1.ReasonIsolated, fmt.Sprintf("The operator crashed %d times in this step; the last attempt starts when no other such run is active",
		s.Object.Run().Crashes.Count))
	s.RequeueAfter(isolationRetryInterval)
	return AttemptHeld
}
