// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

// ErrStuck is the outcome of a run that was cancelled and did not end in time. Its
// function goes on in the background with a cancelled context; what it returns is logged
// and changes nothing.
var ErrStuck = errors.New("it does not end")

const (
	// maxStuckTasks is how many functions of a Runner may go on after their runs were left
	// behind. Each may keep a thread, and there are not endlessly many.
	maxStuckTasks = 256
	// stopTimeout is how long Start waits for runs after its context ended. It is shorter
	// than what the manager gives to all of its parts.
	stopTimeout = 15 * time.Second
)

// Outcome is what a run returned.
type Outcome[R any] struct {
	Value R
	Err   error
	// At is when it returned.
	At time.Time
	// Cause is why it was cancelled; nil if it was not.
	Cause error
}

// Runner runs functions in the background, one per identity. It is safe for
// concurrent use.
type Runner[R any] struct {
	// GracePeriod is how long a cancelled run has to end. Then it is left behind. Zero waits for
	// ever. It must not change after Start.
	GracePeriod time.Duration

	enqueueOwner func(types.NamespacedName)

	mu      sync.Mutex
	base    context.Context //nolint:containedctx // the runner's life, given by Start; runs outlive the reconcile that asks for them
	log     logr.Logger
	running sync.WaitGroup
	tasks   map[string]*task[R]
	// stuckByID counts the functions that go on although their runs were left behind.
	stuckByID  map[string]int
	stuckCount int
}

type task[R any] struct {
	id      string
	owner   types.NamespacedName
	started time.Time
	cancel  context.CancelCauseFunc
	// cause is why it was cancelled, nil if it was not.
	cause   error
	stuck   bool
	outcome *Outcome[R]
	// limitTimer cancels the run at a time, and grace leaves it behind.
	limitTimer, graceTimer *time.Timer
	cancelAt               time.Time
}

// New returns a Runner that calls wake with the owner of a run when it ended.
func New[R any](wake func(types.NamespacedName)) *Runner[R] {
	return &Runner[R]{enqueueOwner: wake, tasks: map[string]*task[R]{}, stuckByID: map[string]int{}}
}

// Start lets runs begin and blocks until ctx is done and every run has ended, or does not
// end for too long. Runs have the logger of ctx.
func (r *Runner[R]) Start(ctx context.Context) error {
	r.mu.Lock()
	r.base, r.log = ctx, logr.FromContextOrDiscard(ctx)
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.base = nil
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		r.log.Info("Background work does not end; stopping without it")
	}
	return nil
}

// EnsureStarted starts fn under id unless a run of that id is known, ended or not. The
// owner is woken when fn returns. Before Start and after its end it does
// nothing and says so with false; the owner is to be reconciled again then.
// What fails because the Runner ends has no outcome.
//
// A run whose function of an earlier run of that id still goes on is not started. It ends
// at once with ErrStuck.
func (r *Runner[R]) EnsureStarted(id string, owner types.NamespacedName, fn func(context.Context) (R, error)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.tasks[id]; known {
		return true
	}
	if r.base == nil || r.base.Err() != nil {
		return false
	}
	base := r.base
	ctx, cancel := context.WithCancelCause(base)
	started := &task[R]{id: id, owner: owner, cancel: cancel, started: time.Now()}
	r.tasks[id] = started
	busy, log := r.startError(id), r.log.WithValues("id", id, "owner", owner)
	r.running.Add(1)
	go func() {
		outcome := Outcome[R]{Err: busy}
		if busy == nil {
			outcome = callRecovering(logr.NewContext(ctx, log), fn)
		}
		cancel(nil)
		r.recordOutcome(base, started, outcome)
	}()
	return true
}

// startError says why no run of that id can be started.
func (r *Runner[R]) startError(id string) error {
	switch {
	case r.stuckByID[id] > 0:
		return fmt.Errorf("%w: an earlier try still goes on", ErrStuck)
	case r.stuckCount >= maxStuckTasks:
		return fmt.Errorf("%w: %d others still go on; check the storage locations, then restart the operator", ErrStuck, r.stuckCount)
	}
	return nil
}

// recordOutcome records how a run ended, and wakes its owner.
func (r *Runner[R]) recordOutcome(base context.Context, ended *task[R], outcome Outcome[R]) {
	r.mu.Lock()
	ended.stopTimers()
	if ended.stuck {
		if r.stuckCount--; r.stuckByID[ended.id] == 1 {
			delete(r.stuckByID, ended.id)
		} else {
			r.stuckByID[ended.id]--
		}
		r.mu.Unlock()
		r.log.Info("What was left behind has ended", "id", ended.id, "owner", ended.owner, "error", outcome.Err)
		return
	}
	defer r.running.Done()
	if outcome.Err != nil && base.Err() != nil {
		r.mu.Unlock()
		return // it was interrupted, which is no outcome: whoever comes next starts it again
	}
	outcome.At, outcome.Cause = time.Now(), ended.cause
	ended.outcome = &outcome
	r.mu.Unlock()
	r.enqueueOwner(ended.owner)
}

func (r *task[R]) stopTimers() {
	for _, timer := range []*time.Timer{r.limitTimer, r.graceTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// callRecovering turns a panic into an error: one bad object must not end the operator.
func callRecovering[R any](ctx context.Context, fn func(context.Context) (R, error)) (outcome Outcome[R]) {
	defer func() {
		if p := (*panics.Error)(nil); errors.As(outcome.Err, &p) {
			logr.FromContextOrDiscard(ctx).Error(p, "Background work panicked", "stack", string(p.Stack))
		}
	}()
	defer panics.Recover(&outcome.Err)
	value, err := fn(ctx)
	return Outcome[R]{Value: value, Err: err}
}

// LookupOutcome returns whether a run of that id is known, and its outcome if it ended.
func (r *Runner[R]) LookupOutcome(id string) (outcome *Outcome[R], known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.tasks[id]
	if !known {
		return nil, false
	}
	return started.outcome, true
}

// RunningTime returns for how long a run goes on that has not ended.
func (r *Runner[R]) RunningTime(id string) (age time.Duration, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.tasks[id]
	if !known || started.outcome != nil {
		return 0, false
	}
	return time.Since(started.started), true
}

// NumStuckTasks returns how many functions go on although their runs were left behind.
func (r *Runner[R]) NumStuckTasks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stuckCount
}

// Cancel cancels the context of a run with a cause. The run stays known until
// it has ended and is forgotten. One that does not end in time is left behind.
func (r *Runner[R]) Cancel(id string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.tasks[id]; known {
		r.cancelTask(started, cause)
	}
}

// CancelAfter is Cancel after a while, if the run goes on then. Of several times the first
// one counts.
func (r *Runner[R]) CancelAfter(id string, after time.Duration, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.tasks[id]
	at := time.Now().Add(after)
	if !known || started.outcome != nil || started.limitTimer != nil && !at.Before(started.cancelAt) {
		return
	}
	if started.limitTimer != nil {
		started.limitTimer.Stop()
	}
	started.cancelAt = at
	started.limitTimer = time.AfterFunc(after, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancelTask(started, cause)
	})
}

func (r *Runner[R]) cancelTask(started *task[R], cause error) {
	if started.outcome != nil || started.cause != nil {
		return
	}
	started.cause = cause
	started.cancel(cause)
	if r.GracePeriod > 0 {
		started.graceTimer = time.AfterFunc(r.GracePeriod, func() { r.markStuck(started) })
	}
}

// markStuck gives a run that does not end its outcome.
func (r *Runner[R]) markStuck(started *task[R]) {
	r.mu.Lock()
	if started.outcome != nil || r.base == nil {
		r.mu.Unlock()
		return
	}
	started.stuck = true
	started.outcome = &Outcome[R]{
		Err: fmt.Errorf("%w within %s after it was cancelled (%w)", ErrStuck, r.GracePeriod, started.cause),
		At:  time.Now(), Cause: started.cause,
	}
	r.stuckByID[started.id]++
	r.stuckCount++
	r.mu.Unlock()
	r.running.Done() // the end of the operator does not wait for it either
	r.log.Info("Leaving background work behind that does not end", "id", started.id, "owner", started.owner, "cause", started.cause.Error())
	r.enqueueOwner(started.owner)
}

// Forget drops a run that has ended. A run that goes on stays.
func (r *Runner[R]) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.tasks[id]; known && started.outcome != nil {
		delete(r.tasks, id)
	}
}
