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

// ErrStuck is the outcome of a task that was canceled and did not end in time. Its
// function continues in the background with a canceled context. What the function returns is
// only logged.
var ErrStuck = errors.New("the task did not end")

const (
	// maxStuckTasks is how many functions of a Runner may continue after their tasks were
	// abandoned. Each may block a thread, and the number of threads is limited.
	maxStuckTasks = 256
	// stopTimeout is how long Start waits for tasks after its context is done. It is shorter
	// than the shutdown timeout of the manager.
	stopTimeout = 15 * time.Second
)

// Outcome is what a task returned.
type Outcome[R any] struct {
	Value R
	Err   error
	// At is when the task returned.
	At time.Time
	// Cause is why the task was canceled; nil if it was not.
	Cause error
}

// Runner runs functions in the background, one per ID. It is safe for
// concurrent use.
type Runner[R any] struct {
	// GracePeriod is how long a canceled task has to end before it is abandoned. Zero means no
	// limit. It must not change after Start.
	GracePeriod time.Duration

	enqueueOwner func(types.NamespacedName)

	mu      sync.Mutex
	base    context.Context //nolint:containedctx // the context of Start; tasks outlive the reconcile that starts them
	log     logr.Logger
	running sync.WaitGroup
	tasks   map[string]*task[R]
	// stuckByID counts the functions that continue although their tasks were abandoned.
	stuckByID  map[string]int
	stuckCount int
}

type task[R any] struct {
	id      string
	owner   types.NamespacedName
	started time.Time
	cancel  context.CancelCauseFunc
	// cause is why the task was canceled, nil if it was not.
	cause   error
	stuck   bool
	outcome *Outcome[R]
	// limitTimer cancels the task at a time, and graceTimer abandons it.
	limitTimer, graceTimer *time.Timer
	cancelAt               time.Time
}

// New returns a Runner that calls wake with the owner of a task when the task has ended.
func New[R any](wake func(types.NamespacedName)) *Runner[R] {
	return &Runner[R]{enqueueOwner: wake, tasks: map[string]*task[R]{}, stuckByID: map[string]int{}}
}

// Start allows tasks to start. It blocks until ctx is done and every task has ended, or
// stopTimeout has passed. Tasks get the logger of ctx.
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
		r.log.Info("Background tasks did not end; stopping without them")
	}
	return nil
}

// EnsureStarted starts fn under id unless a task of that id is known, ended or not. The owner is
// enqueued when fn returns. Before Start and after its end, EnsureStarted does nothing and returns
// false; the caller must then requeue the owner. A task that fails because the Runner stops has no
// outcome.
//
// If the function of an abandoned task of that id is still running, the new task is not started and
// ends at once with ErrStuck.
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
	busy := r.startError(id)
	r.running.Add(1)
	go func() {
		outcome := Outcome[R]{Err: busy}
		if busy == nil {
			outcome = r.callRecovering(ctx, started, fn)
		}
		cancel(nil)
		r.recordOutcome(base, started, outcome)
	}()
	return true
}

// startError returns why no task of that id can be started.
func (r *Runner[R]) startError(id string) error {
	switch {
	case r.stuckByID[id] > 0:
		return fmt.Errorf("%w: an earlier attempt is still running", ErrStuck)
	case r.stuckCount >= maxStuckTasks:
		return fmt.Errorf("%w: %d others are still running; check the storage locations, then restart the operator", ErrStuck, r.stuckCount)
	}
	return nil
}

// recordOutcome records the outcome of a task, and enqueues its owner.
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
		r.log.Info("An abandoned task has ended", "id", ended.id, "owner", ended.owner, "error", outcome.Err)
		return
	}
	defer r.running.Done()
	if outcome.Err != nil && base.Err() != nil {
		r.mu.Unlock()
		return // an interruption is no outcome: the next operator starts the task again
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

// callRecovering turns a panic into an error: one bad object must not end the operator. The tasks
// have no loggers of their own: thousands may wait in fn, and a logger with values takes 2 KiB.
func (r *Runner[R]) callRecovering(ctx context.Context, started *task[R], fn func(context.Context) (R, error)) (outcome Outcome[R]) {
	defer func() {
		if p := (*panics.Error)(nil); errors.As(outcome.Err, &p) {
			r.log.Error(p, "A background task panicked", "id", started.id, "owner", started.owner, "stack", string(p.Stack))
		}
	}()
	defer panics.Recover(&outcome.Err)
	value, err := fn(ctx)
	return Outcome[R]{Value: value, Err: err}
}

// LookupOutcome returns whether a task of that id is known, and its outcome if it has ended.
func (r *Runner[R]) LookupOutcome(id string) (outcome *Outcome[R], known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.tasks[id]
	if !known {
		return nil, false
	}
	return started.outcome, true
}

// RunningTime returns how long a task has been running, if it has not ended.
func (r *Runner[R]) RunningTime(id string) (age time.Duration, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.tasks[id]
	if !known || started.outcome != nil {
		return 0, false
	}
	return time.Since(started.started), true
}

// NumStuckTasks returns how many functions continue although their tasks were abandoned.
func (r *Runner[R]) NumStuckTasks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stuckCount
}

// Cancel cancels the context of a task with a cause. The task stays known until
// it has ended and is forgotten. A task that does not end in time is abandoned.
func (r *Runner[R]) Cancel(id string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.tasks[id]; known {
		r.cancelTask(started, cause)
	}
}

// CancelAfter is Cancel after a while, if the task is still running then. If it is called several
// times, the earliest time counts.
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

// markStuck records the outcome of a task that does not end.
func (r *Runner[R]) markStuck(started *task[R]) {
	r.mu.Lock()
	if started.outcome != nil || r.base == nil {
		r.mu.Unlock()
		return
	}
	started.stuck = true
	started.outcome = &Outcome[R]{
		Err: fmt.Errorf("%w within %s after it was canceled (%w)", ErrStuck, r.GracePeriod, started.cause),
		At:  time.Now(), Cause: started.cause,
	}
	r.stuckByID[started.id]++
	r.stuckCount++
	r.mu.Unlock()
	r.running.Done() // the shutdown of the operator does not wait for it either
	r.log.Info("Abandoning a background task that does not end", "id", started.id, "owner", started.owner, "cause", started.cause.Error())
	r.enqueueOwner(started.owner)
}

// Forget drops a task that has ended. A running task stays.
func (r *Runner[R]) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.tasks[id]; known && started.outcome != nil {
		delete(r.tasks, id)
	}
}
