// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Outcome is what a run returned.
type Outcome[R any] struct {
	Value R
	Err   error
	// At is when it returned.
	At time.Time
}

// Runner runs functions in the background, one per identity. It is safe for
// concurrent use.
type Runner[R any] struct {
	wake func(types.NamespacedName)

	mu      sync.Mutex
	base    context.Context //nolint:containedctx // the runner's life, given by Start; runs outlive the reconcile that asks for them
	running sync.WaitGroup
	runs    map[string]*run[R]
}

type run[R any] struct {
	cancel  context.CancelCauseFunc
	outcome *Outcome[R]
}

// New returns a Runner that calls wake with the owner of a run when it ended.
func New[R any](wake func(types.NamespacedName)) *Runner[R] {
	return &Runner[R]{wake: wake, runs: map[string]*run[R]{}}
}

// Start lets runs begin and blocks until ctx is done and every run has ended.
func (r *Runner[R]) Start(ctx context.Context) error {
	r.mu.Lock()
	r.base = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.base = nil
	r.mu.Unlock()
	r.running.Wait()
	return nil
}

// Ensure starts fn under id unless a run of that id is known, ended or not. The
// owner is woken when fn returns. Before Start and after its end it does
// nothing and says so with false; the owner is to be reconciled again then.
// What fails because the Runner ends has no outcome.
func (r *Runner[R]) Ensure(id string, owner types.NamespacedName, fn func(context.Context) (R, error)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.runs[id]; known {
		return true
	}
	if r.base == nil || r.base.Err() != nil {
		return false
	}
	base := r.base
	ctx, cancel := context.WithCancelCause(base)
	started := &run[R]{cancel: cancel}
	r.runs[id] = started
	r.running.Go(func() {
		outcome := call(ctx, fn)
		cancel(nil)
		if outcome.Err != nil && base.Err() != nil {
			return // it was interrupted, which is no outcome: whoever comes next starts it again
		}
		outcome.At = time.Now()
		r.mu.Lock()
		started.outcome = &outcome
		r.mu.Unlock()
		r.wake(owner)
	})
	return true
}

// call turns a panic into an error: one bad object must not end the operator.
func call[R any](ctx context.Context, fn func(context.Context) (R, error)) (outcome Outcome[R]) {
	defer func() {
		if p := recover(); p != nil {
			outcome.Err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	value, err := fn(ctx)
	return Outcome[R]{Value: value, Err: err}
}

// State returns whether a run of that id is known, and its outcome if it ended.
func (r *Runner[R]) State(id string) (outcome *Outcome[R], known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, known := r.runs[id]
	if !known {
		return nil, false
	}
	return started.outcome, true
}

// Cancel cancels the context of a run with a cause. The run stays known until
// it has ended and is forgotten.
func (r *Runner[R]) Cancel(id string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.runs[id]; known {
		started.cancel(cause)
	}
}

// Forget drops a run that has ended. A run that goes on stays.
func (r *Runner[R]) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started, known := r.runs[id]; known && started.outcome != nil {
		delete(r.runs, id)
	}
}
