// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

func stepID(uid types.UID, step string) string { return string(uid) + "/" + step }

var errRunCanceled = errors.New("the run is being cancelled")

// Result is what a step came to.
type Result[R any] struct {
	Value R
	Err   error
}

// ExecuteStep carries out a piece of work in the background, once for each run and
// name. It returns nil while the work goes on, and what it came to afterwards,
// until [Driver.Restart]. The work begins once the status of this pass is
// written; prepare returns it then, so that it sees what was written.
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
		started := d.steps.EnsureStarted(id, namespacedNameOf(s.Object), func(ctx context.Context) (any, error) {
			defer d.Journal.Begin(journalID(s.Object.GetUID(), name))()
			return work(ctx)
		})
		if !started {
			s.RequeueAfter(time.Second)
		}
		d.setStepTimeout(s, name)
		return nil
	})
	return nil
}

// ExecuteStepWithStore is Step for work in the storage location of a run, which is open while
// the work goes on; request tells the work what is to be done.
func ExecuteStepWithStore[R, Q any, T Object](
	d *Driver[T], s *Scope[T], name string, request func(*Scope[T]) (Q, error),
	work func(context.Context, *backupstore.Store, Q) (R, error),
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

// NoValue is what work returns that finds nothing out.
type NoValue struct{}

// WithoutValue makes work for ExecuteStepWithStore of a function that finds nothing out.
func WithoutValue[Q any](f func(context.Context, *backupstore.Store, Q) error) func(context.Context, *backupstore.Store, Q) (NoValue, error) {
	return func(ctx context.Context, store *backupstore.Store, request Q) (NoValue, error) {
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

// HasStepStarted says whether a step of a run runs, or has ended in this process.
func (d *Driver[T]) HasStepStarted(s *Scope[T], name string) bool {
	_, known := d.steps.LookupOutcome(stepID(s.Object.GetUID(), name))
	return known
}

// CancelSteps cancels steps, and says whether one still runs.
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

// ResetStep lets an ended step be carried out again.
func (d *Driver[T]) ResetStep(s *Scope[T], name string) {
	d.steps.Forget(stepID(s.Object.GetUID(), name))
}

// The pause before a step after the outcome is repeated, and how long it is: a
// store that is gone must not hold a run for ever.
const (
	retryInterval = 5 * time.Second
	retryTimeout  = 10 * time.Minute
	// workRetryTimeout is how long work is repeated that completes what took hours.
	workRetryTimeout = time.Hour
)

// RetryFor plans to carry out a failed step again that follows operations, until it has
// failed for too long. An operator that starts anew tries as long.
func (d *Driver[T]) RetryFor(s *Scope[T], step, what string, err error) bool {
	if errors.Is(err, errCrashed) || d.throttle.recordWorkFailure(s.Object.GetUID(), d.Now()) > workRetryTimeout {
		return false
	}
	s.SetFinalizingPhase(what + " failed: " + d.Redactor.String(err.Error()) + "; it is tried again")
	d.scheduleRetry(s, step)
	return true
}

// RetryForever plans to carry out a failed step again, however often that takes. The caller says
// what failed.
func (d *Driver[T]) RetryForever(s *Scope[T], step string) { d.scheduleRetry(s, step) }

// scheduleRetry plans to carry out a step again after a pause.
func (d *Driver[T]) scheduleRetry(s *Scope[T], step string) {
	outcome, known := d.steps.LookupOutcome(stepID(s.Object.GetUID(), step))
	if known && outcome != nil {
		// The write of what failed has the run looked at again at once.
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

// AwaitStep reports whether a step after the outcome holds the run, because it goes on, or
// has failed and is carried out again. What is said of the run tells then which step that is,
// and why, whatever else goes on.
func AwaitStep[R any, T Object](d *Driver[T], s *Scope[T], step, what string, ended *Result[R]) bool {
	if ended == nil {
		s.reportUnfinishedStep(what + d.throttle.lastFailure(s.Object.GetUID(), step))
		return true
	}
	return ended.Err != nil && d.retryAfterOutcome(s, step, what, ended.Err)
}

// retryAfterOutcome plans to carry out a failed step after the outcome again. When it failed
// for too long it is given up, which a person should know; so it is at once when a
// run is deleted whose location is gone.
func (d *Driver[T]) retryAfterOutcome(s *Scope[T], step, what string, err error) bool {
	// Of a namespace that is being deleted the location goes first, and no other
	// can be created in its place.
	hopeless := errors.Is(err, errCrashed) || (apierrors.IsNotFound(err) && s.Object.GetDeletionTimestamp() != nil)
	if hopeless || d.Now().Sub(s.Object.Run().CompletionTimestamp.Time) > retryTimeout {
		return d.emitLogUploadFailed(s, step, what, err)
	}
	failure := d.failureMessage("", err) + "; it is tried again"
	d.throttle.recordStepFailure(s.Object.GetUID(), step, failure)
	s.reportUnfinishedStep(what + failure)
	d.scheduleRetry(s, step)
	return true
}

// AwaitUploadStep is Unfinished of a step that does nothing but store something. It is given
// up at once in a store that takes nothing.
func AwaitUploadStep[R any, T Object](d *Driver[T], s *Scope[T], step, what string, ended *Result[R]) bool {
	if ended != nil && objectstore.IsUnwritable(ended.Err) {
		return d.emitLogUploadFailed(s, step, what, ended.Err)
	}
	return AwaitStep(d, s, step, what, ended)
}

func (d *Driver[T]) failureMessage(what string, err error) string {
	return what + " failed: " + d.Redactor.String(err.Error())
}

// emitLogUploadFailed says, once, that a log is lost. It returns false: nothing is repeated.
func (d *Driver[T]) emitLogUploadFailed(s *Scope[T], step, what string, err error) bool {
	s.AfterStatusUpdate(func(ctx context.Context) error {
		if d.throttle.markStepGivenUp(s.Object.GetUID(), step) {
			d.emitEvent(ctx, s.Object, corev1.EventTypeWarning, v1alpha1.ReasonLogLost, "Finish", d.failureMessage(what, err)+"; it is not tried again")
		}
		return nil
	})
	return false
}
