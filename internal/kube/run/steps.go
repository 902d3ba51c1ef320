// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

func stepID(uid types.UID, step string) string { return string(uid) + "/" + step }

var errStopped = errors.New("the run is being cancelled")

// Ended is what a step came to.
type Ended[R any] struct {
	Value R
	Err   error
}

// Step carries out a piece of work in the background, once for each run and
// name. It returns nil while the work goes on, and what it came to afterwards,
// until [Driver.Restart]. The work begins once the status of this pass is
// written; prepare returns it then, so that it sees what was written.
func Step[R any, T Subject](d *Driver[T], s *Scope[T], name string, prepare func() (func(context.Context) (R, error), error)) *Ended[R] {
	id := stepID(s.Object.GetUID(), name)
	if outcome, known := d.steps.State(id); known {
		return typed[R](outcome)
	}
	s.Then(func(context.Context) error {
		work, err := prepare()
		if err != nil {
			return err
		}
		started := d.steps.Ensure(id, nameOf(s.Object), func(ctx context.Context) (any, error) { return work(ctx) })
		if !started {
			s.Again(time.Second)
		}
		return nil
	})
	return nil
}

// InStore is Step for work in the storage location of a run, which is open while
// the work goes on; request tells the work what is to be done.
func InStore[R, Q any, T Subject](
	d *Driver[T], s *Scope[T], name string, request func(*Scope[T]) (Q, error),
	work func(context.Context, *backupstore.Store, Q) (R, error),
) *Ended[R] {
	return Step(d, s, name, func() (func(context.Context) (R, error), error) {
		asked, err := request(s)
		if err != nil {
			return nil, err
		}
		key := types.NamespacedName{Namespace: s.Object.GetNamespace(), Name: d.Location(s.Object)}
		return func(ctx context.Context) (R, error) {
			return location.With(ctx, d.Client, d.Opener, key, func(opened *location.Store) (R, error) {
				return work(ctx, opened.Store, asked)
			})
		}, nil
	})
}

// None is what work returns that finds nothing out.
type None struct{}

// Doing makes work for InStore of a function that finds nothing out.
func Doing[Q any](f func(context.Context, *backupstore.Store, Q) error) func(context.Context, *backupstore.Store, Q) (None, error) {
	return func(ctx context.Context, store *backupstore.Store, request Q) (None, error) {
		return None{}, f(ctx, store, request)
	}
}

func typed[R any](outcome *runner.Outcome[any]) *Ended[R] {
	if outcome == nil {
		return nil
	}
	value, _ := outcome.Value.(R) // a step that panicked has no value
	return &Ended[R]{Value: value, Err: outcome.Err}
}

// Begun says whether a step of a run runs, or has ended in this process.
func (d *Driver[T]) Begun(s *Scope[T], name string) bool {
	_, known := d.steps.State(stepID(s.Object.GetUID(), name))
	return known
}

// StopSteps cancels steps, and says whether one still runs.
func (d *Driver[T]) StopSteps(s *Scope[T], names ...string) (busy bool) {
	return d.stop(s.Object.GetUID(), names...)
}

func (d *Driver[T]) stop(uid types.UID, names ...string) (busy bool) {
	for _, name := range names {
		id := stepID(uid, name)
		if outcome, known := d.steps.State(id); known && outcome == nil {
			d.steps.Cancel(id, errStopped)
			busy = true
		}
	}
	return busy
}

// Restart lets an ended step be carried out again.
func (d *Driver[T]) Restart(s *Scope[T], name string) {
	d.steps.Forget(stepID(s.Object.GetUID(), name))
}

// The pause before a step after the outcome is repeated, and how long it is: a
// store that is gone must not hold a run for ever.
const (
	retryPause = 5 * time.Second
	retryLimit = 10 * time.Minute
	// locationGrace is how long a location that does not exist is waited for.
	locationGrace = 5 * time.Second
	// workLimit is how long work is repeated that completes what took hours.
	workLimit = time.Hour
)

// RepeatWork plans to carry out a failed step again that follows operations, until it has
// failed for too long. An operator that starts anew tries as long.
func (d *Driver[T]) RepeatWork(s *Scope[T], step, what string, err error) bool {
	if d.pace.failing(s.Object.GetUID(), d.Now()) > workLimit {
		return false
	}
	s.Finalizing(what + " failed: " + d.Redactor.String(err.Error()) + "; it is tried again")
	d.again(s, step)
	return true
}

// Retry plans to carry out a failed step again, however often that takes. The caller says
// what failed.
func (d *Driver[T]) Retry(s *Scope[T], step string) { d.again(s, step) }

// again plans to carry out a step again after a pause.
func (d *Driver[T]) again(s *Scope[T], step string) {
	outcome, known := d.steps.State(stepID(s.Object.GetUID(), step))
	if known && outcome != nil {
		// The write of what failed has the run looked at again at once.
		if rest := retryPause - d.Now().Sub(outcome.At); rest > 0 {
			s.Again(rest)
			return
		}
	}
	s.Again(time.Millisecond)
	s.Then(func(context.Context) error {
		d.Restart(s, step)
		return nil
	})
}

// Repeat plans to carry out a failed step after the outcome again. When it failed
// for too long it is given up, which somebody should know; so it is at once when a
// run is deleted whose location is gone.
func (d *Driver[T]) Repeat(s *Scope[T], step, what string, err error) bool {
	message := what + " failed: " + d.Redactor.String(err.Error())
	// Of a namespace that is being deleted the location goes first, and no other
	// can be created in its place.
	hopeless := apierrors.IsNotFound(err) && s.Object.GetDeletionTimestamp() != nil
	if hopeless || d.Now().Sub(s.Object.Run().CompletionTimestamp.Time) > retryLimit {
		s.Then(func(ctx context.Context) error {
			d.event(ctx, s.Object, corev1.EventTypeWarning, "LogLost", "Finish", message+"; it is not tried again")
			return nil
		})
		return false
	}
	s.Finishing(v1alpha1.ReasonStoringLogs, message+"; it is tried again")
	d.again(s, step)
	return true
}
