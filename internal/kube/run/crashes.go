// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// maxCrashes is how often in a row one step of a run may crash the operator. The last time it
// is tried alone, so that a run which only went on beside one that crashes is not blamed.
const maxCrashes = 3

// maxUnisolatedCrashes is how many it may be while other work went on each time: what began since may
// have done it. If it did, it has to wait its turn after as many crashes as make the difference.
const maxUnisolatedCrashes = 5

var errCrashed = errors.New("the operator crashed")

// IsCrashed reports whether a step failed because it has crashed the operator too often.
func IsCrashed(err error) bool { return errors.Is(err, errCrashed) }

// isolationRetryInterval is between two tries to be the run that is tried alone.
const isolationRetryInterval = 5 * time.Second

// isolationTimeout is how long a run waits for that which has called Pre actions: an application may
// be down meanwhile.
const isolationTimeout = 10 * time.Minute

// countCrash counts a crash of the operator in a step of a run, once, and returns an error if
// that was the last one. See docs/adr/0013.
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
		return fmt.Errorf("%w %d times in the step %s of this %s; the log of the operator that ended, and its last state "+
			"(OOMKilled, or a panic), say why: give it more memory, leave out the object that it names, or report it; then create a new %s",
			errCrashed, c.Count, step, d.Kind.Name, d.Kind.Name)
	}
	if c := status.Crashes; c != nil && d.throttle.isStepRefused(s.Object.GetUID(), step) {
		return fmt.Errorf("%w %d times in the step %s of this %s, and it was not its turn within %s to be tried alone for the last time, "+
			"as another run that crashed the operator goes on; what its actions did does not wait any longer; create a new %s when that run has ended",
			errCrashed, c.Count, step, d.Kind.Name, isolationTimeout, d.Kind.Name)
	}
	return nil
}

// AttemptAdmission is what Admit says.
type AttemptAdmission int

const (
	// AttemptAdmitted lets a new attempt begin.
	AttemptAdmitted AttemptAdmission = iota
	// AttemptHeld means that it has to wait; the Scope says for what.
	AttemptHeld
	// AttemptRefused means that there is none any more: Step returns an error.
	AttemptRefused
)

// AdmitAttempt decides whether a step that takes long may begin a new attempt. After a start of the
// operator, clean-up that is owed by other runs goes first.
func (d *Driver[T]) AdmitAttempt(ctx context.Context, s *Scope[T], step string) (AttemptAdmission, error) {
	if err := d.countCrash(s, step); err != nil {
		return AttemptRefused, nil //nolint:nilerr // Step returns it
	}
	waits, err := d.shouldAwaitCleanup(ctx)
	switch c := s.Object.Run().Crashes; {
	case err != nil:
		return AttemptHeld, err
	case waits:
		s.MarkRunning(v1alpha1.ReasonWaitingForCleanup, "Waiting for a moment until owed clean-up of other runs was tried, as the operator has just started")
		s.RequeueAfter(cleanupGatePollInterval)
		return AttemptHeld, nil
	case c != nil && c.Step == step && c.Count >= maxCrashes-1 && !d.Journal.ReserveExclusive(journalID(s.Object.GetUID(), step)):
		return d.awaitIsolation(s, step), nil
	}
	return AttemptAdmitted, nil
}

// awaitIsolation has a step wait until it may be tried alone, but not for ever if its run called Pre
// actions.
func (d *Driver[T]) awaitIsolation(s *Scope[T], step string) AttemptAdmission {
	if since := d.throttle.recordIsolationWait(s.Object.GetUID(), d.Now()); since >= isolationTimeout && HasStartedHookRun(s.Pre) {
		d.throttle.markStepRefused(s.Object.GetUID(), step)
		return AttemptRefused
	}
	s.MarkRunning(v1alpha1.ReasonIsolated, fmt.Sprintf("The operator crashed %d times in this step; it is tried for the last time when no other such run goes on",
		s.Object.Run().Crashes.Count))
	s.RequeueAfter(isolationRetryInterval)
	return AttemptHeld
}
