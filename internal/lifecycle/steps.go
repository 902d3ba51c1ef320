// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

func stepID(uid types.UID, step string) string { return string(uid) + "/" + step }

var errRunCanceled = errors.New("the run is being canceled")

// Result is the result of a step.
type Result[R any] struct {
	Value R
	Err   error
}

// ExecuteStep runs work in the background, once for each run and name. It returns nil while the
// work is running, and its result afterwards, until [Driver.ResetStep]. The work starts after
// the status of this pass is written. Then prepare is called and returns the work, so that it
// sees the written status.
func ExecuteStep[R any, T Object](d *Driver[T], s *Scope[T], name string, prepare func() (func(context.Context) (R, error), error)) *Result[R] {
	id := stepID(s.Object.GetUID(), name)
	if outcome, known := d.steps.LookupOutcome(id); known {
		d.observeStep(s, name, outcome)
		return toResult[R](outcome)
	}
	if err := d.countCrash(s, name); err != nil {
		return &Result[R]{Err: err}
	}
	s.AfterStatusUpdate(func(context.Context) error {
		work, err := prepare()
		if err != nil {
			return err
		}
		timeline := s.Object.Run().Timeline
		started := d.steps.EnsureStarted(id, namespacedNameOf(s.Object), func(ctx context.Context) (any, error) {
			defer d.Journal.Begin(journalID(s.Object.GetUID(), name))()
			return work(d.Tracer.WithStage(ctx, s.Object.GetUID(), timeline))
		})
		if !started {
			s.RequeueAfter(time.Second)
		}
		d.setStepTimeout(s, name)
		return nil
	})
	return nil
}

// ExecuteStepWithStore is ExecuteStep for work that needs the storage location of a run. The
// location is open while the work is running. The function request returns the input of the
// work.
func ExecuteStepWithStore[R, Q any, T Object](
	d *Driver[T], s *Scope[T], name string, request func(*Scope[T]) (Q, error),
	work func(context.Context, *storage.Store, Q) (R, error),
) *Result[R] {
	return ExecuteStep(d, s, name, func() (func(context.Context) (R, error), error) {
		asked, err := request(s)
		if err != nil {
			return nil, err
		}
		key := types.NamespacedName{Namespace: s.Object.GetNamespace(), Name: d.Location(s.Object)}
		return func(ctx context.Context) (R, error) {
			return location.WithOpenStore(ctx, d.Client, d.Opener, key, func(opened *location.Store) (R, error) {
				return work(ctx, opened.Store, asked)
			})
		}, nil
	})
}

// NoValue is the value of work that only returns an error.
type NoValue struct{}

// WithoutValue converts a function that only returns an error to work for ExecuteStepWithStore.
func WithoutValue[Q any](f func(context.Context, *storage.Store, Q) error) func(context.Context, *storage.Store, Q) (NoValue, error) {
	return func(ctx context.Context, store *storage.Store, request Q) (NoValue, error) {
		return NoValue{}, f(ctx, store, request)
	}
}

func toResult[R any](outcome *runner.Outcome[any]) *Result[R] {
	if outcome == nil {
		return nil
	}
	value, _ := outcome.Value.(R) // a step that panicked has no value
	err, late := outcome.Err, (*deadlineError)(nil)
	if err != nil && errors.As(outcome.Cause, &late) && !errors.Is(err, late) {
		err = fmt.Errorf("%w: %w", late, err)
	}
	return &Result[R]{Value: value, Err: err}
}

// LookupStepResult returns the result of a step of a run that has ended in this process; nil if there
// is none.
func LookupStepResult[R any, T Object](d *Driver[T], s *Scope[T], name string) *Result[R] {
	outcome, _ := d.steps.LookupOutcome(stepID(s.Object.GetUID(), name))
	return toResult[R](outcome)
}

// HasStepStarted reports whether a step of a run is running, or has ended in this process.
func (d *Driver[T]) HasStepStarted(s *Scope[T], name string) bool {
	_, known := d.steps.LookupOutcome(stepID(s.Object.GetUID(), name))
	return known
}

// StepRunningTime returns how long a step of a run has been running; 0 if it is not.
func (d *Driver[T]) StepRunningTime(s *Scope[T], name string) time.Duration {
	age, _ := d.steps.RunningTime(stepID(s.Object.GetUID(), name))
	return age
}

// CancelSteps cancels steps, and reports whether one is still running.
func (d *Driver[T]) CancelSteps(s *Scope[T], names ...string) (busy bool) {
	return d.cancelRunSteps(s.Object.GetUID(), names...)
}

func (d *Driver[T]) cancelRunSteps(uid types.UID, names ...string) (busy bool) {
	for _, name := range names {
		id := stepID(uid, name)
		if outcome, known := d.steps.LookupOutcome(id); known && outcome == nil {
			d.steps.Cancel(id, errRunCanceled)
			busy = true
		}
	}
	return busy
}

// ResetStep drops the result of a step, so that it can run again.
func (d *Driver[T]) ResetStep(s *Scope[T], name string) {
	d.steps.Forget(stepID(s.Object.GetUID(), name))
}

// Retries of a step that follows the outcome. A store that no longer exists must not hold a run
// forever.
const (
	retryInterval = 5 * time.Second
	retryTimeout  = 10 * time.Minute
	// workRetryTimeout is how long work is retried that completes hours of earlier work.
	workRetryTimeout = time.Hour
)

// RetryFor schedules a retry of a failed step that follows operations, until the step has failed
// for workRetryTimeout. A restarted operator starts counting again.
func (d *Driver[T]) RetryFor(s *Scope[T], step, what string, err error) bool {
	if errors.Is(err, errCrashed) || d.throttle.recordWorkFailure(s.Object.GetUID(), d.Now()) > workRetryTimeout {
		return false
	}
	s.SetFinalizingPhase(what + " failed: " + d.Redactor.String(err.Error()) + "; retrying")
	d.scheduleRetry(s, step)
	return true
}

// RetryForever schedules a retry of a failed step without a limit. The caller reports the
// failure.
func (d *Driver[T]) RetryForever(s *Scope[T], step string) { d.scheduleRetry(s, step) }

// scheduleRetry schedules a retry of a step after retryInterval.
func (d *Driver[T]) scheduleRetry(s *Scope[T], step string) {
	outcome, known := d.steps.LookupOutcome(stepID(s.Object.GetUID(), step))
	if known && outcome != nil {
		// Writing the failure to the status reconciles the run again at once.
		if rest := retryInterval - d.Now().Sub(outcome.At); rest > 0 {
			s.RequeueAfter(rest)
			return
		}
	}
	s.RequeueAfter(time.Millisecond)
	s.AfterStatusUpdate(func(context.Context) error {
		d.ResetStep(s, step)
		return nil
	})
}

// AwaitStep reports whether a step after the outcome holds the run, because it is running, or
// because it has failed and is retried. If so, the status names the step and the reason, in
// addition to other remaining work.
func AwaitStep[R any, T Object](d *Driver[T], s *Scope[T], step, what string, ended *Result[R]) bool {
	if ended == nil {
		s.reportUnfinishedStep(what + d.throttle.lastFailure(s.Object.GetUID(), step))
		return true
	}
	return ended.Err != nil && d.retryAfterOutcome(s, step, what, ended.Err)
}

// retryAfterOutcome schedules a retry of a failed step after the outcome. It gives up when the
// step has failed for too long, and emits an event. It gives up at once if the run is being
// deleted and its location no longer exists.
func (d *Driver[T]) retryAfterOutcome(s *Scope[T], step, what string, err error) bool {
	// When a namespace is deleted, the location may be deleted first, and no other can be
	// created in its place.
	hopeless := errors.Is(err, errCrashed) || (apierrors.IsNotFound(err) && s.Object.GetDeletionTimestamp() != nil)
	if hopeless || d.Now().Sub(s.Object.Run().CompletionTimestamp.Time) > retryTimeout {
		return d.emitLogUploadFailed(s, step, what, err)
	}
	failure := d.failureMessage("", err) + "; retrying"
	d.throttle.recordStepFailure(s.Object.GetUID(), step, failure)
	s.reportUnfinishedStep(what + failure)
	d.scheduleRetry(s, step)
	return true
}

// AwaitUploadStep is AwaitStep for a step that only stores something. It gives up at once if the
// store does not accept writes.
func AwaitUploadStep[R any, T Object](d *Driver[T], s *Scope[T], step, what string, ended *Result[R]) bool {
	if ended != nil && objectstore.IsUnwritable(ended.Err) {
		return d.emitLogUploadFailed(s, step, what, ended.Err)
	}
	return AwaitStep(d, s, step, what, ended)
}

func (d *Driver[T]) failureMessage(what string, err error) string {
	return what + " failed: " + d.Redactor.String(err.Error())
}

// emitLogUploadFailed emits an event, once, that a log is lost. It returns false: the step is
// not retried.
func (d *Driver[T]) emitLogUploadFailed(s *Scope[T], step, what string, err error) bool {
	s.AfterStatusUpdate(func(ctx context.Context) error {
		if d.throttle.markStepGivenUp(s.Object.GetUID(), step) {
			d.emitEvent(ctx, s.Object, corev1.EventTypeWarning, v1alpha1.ReasonLogLost, "Finish", d.failureMessage(what, err)+"; it is not retried")
		}
		return nil
	})
	return false
}
