// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// gracePeriod is how long a call may take to return after its ctx was canceled. A store
	// that honors ctx cleans up in that time.
	gracePeriod = 5 * time.Second

	// maxStuckCalls is how many calls of one store may be abandoned. Each may block an
	// operating system thread, of which Go allows 10,000.
	maxStuckCalls = 16
)

// Timeouts are how long a store may block its caller; 0 means until the end of ctx.
type Timeouts struct {
	// Call is for a call that is not a transfer, and for the next entry of a list.
	Call time.Duration
	// Stream is for the next bytes of a transfer.
	Stream time.Duration
	// Finish is from the end of the content of a Put until the object is stored.
	Finish time.Duration
}

// Options describe a store to its users.
type Options struct {
	// Name is the name of the store in errors, as in "the volume of location main".
	Name string
	// Hint tells a user what to do if the store hangs.
	Hint string
	// Timeouts bound its calls.
	Timeouts Timeouts
	// StuckCalls counts the abandoned calls; required.
	StuckCalls *StuckCalls
}

// StuckCalls counts the calls of a store that were abandoned and have not returned. The
// zero value is ready to use. It is safe for concurrent use by all Stores of one directory
// or bucket.
type StuckCalls struct {
	mu    sync.Mutex
	calls int
}

// Count returns how many calls have not returned.
func (s *StuckCalls) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *StuckCalls) addCalls(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += n
}

// stalledError returns the error of a store without progress.
func (o Options) stalledError(limit time.Duration) error {
	return fmt.Errorf("%w: %s has made no progress for %s; %s", objectstore.ErrStalled, o.Name, limit, o.Hint)
}

// checkStuckCalls rejects a call to a store with too many stuck calls.
func (o Options) checkStuckCalls() error {
	if n := o.StuckCalls.Count(); n >= maxStuckCalls {
		return fmt.Errorf("%w: %d calls to %s have not returned, so no new one is made; %s", objectstore.ErrStalled, n, o.Name, o.Hint)
	}
	return nil
}

// callResult is the result of a call.
type callResult[R any] struct {
	value R
	err   error
}

// watchedCall is a call in progress.
type watchedCall[R any] struct {
	opts   Options
	cancel context.CancelCauseFunc
	done   chan callResult[R]
	// release frees the resources of a late answer; may be nil.
	release func(R)
	// abort ends what the call shares with others when the call is abandoned; may be nil.
	abort func(error)
}

// startCall starts a call. The ctx of fn lives until cancel is called.
func startCall[R any](ctx context.Context, o Options, fn func(context.Context) (R, error), release func(R)) (*watchedCall[R], error) {
	if err := o.checkStuckCalls(); err != nil {
		return nil, err
	}
	return startCallUnchecked(ctx, o, fn, release), nil
}

// startCallUnchecked is startCall regardless of the number of stuck calls.
func startCallUnchecked[R any](ctx context.Context, o Options, fn func(context.Context) (R, error), release func(R)) *watchedCall[R] {
	inner, cancel := context.WithCancelCause(ctx)
	c := &watchedCall[R]{opts: o, cancel: cancel, done: make(chan callResult[R], 1), release: release}
	go func() {
		var a callResult[R]
		defer func() { c.done <- a }()
		defer panics.Recover(&a.err)
		a.value, a.err = fn(inner)
	}()
	return c
}

// RunWithTimeout calls fn and returns its result. If fn does not return in time, it returns
// the cause of the end of ctx or an objectstore.ErrStalled. Release, if not nil, frees a
// value that arrives too late. The ctx of fn ends when RunWithTimeout returns.
func RunWithTimeout[R any](ctx context.Context, o Options, limit time.Duration, fn func(context.Context) (R, error), release func(R)) (R, error) {
	c, err := startCall(ctx, o, fn, release)
	if err != nil {
		var none R
		return none, err
	}
	defer c.cancel(nil)
	return c.waitForResult(ctx, limit)
}

// waitForResult waits for the answer.
func (c *watchedCall[R]) waitForResult(ctx context.Context, limit time.Duration) (R, error) {
	timer, stop := newOptionalTimer(limit)
	defer stop()
	select {
	case a := <-c.done:
		return a.value, a.err
	case <-ctx.Done():
		return c.giveUpCall(ctx.Err())
	case <-timer:
		return c.giveUpCall(c.opts.stalledError(limit))
	}
}

// giveUpCall cancels the call with cause, and abandons it if it does not return.
func (c *watchedCall[R]) giveUpCall(cause error) (R, error) {
	c.cancel(cause)
	if c.abort != nil {
		c.abort(cause)
	}
	timer, stop := newOptionalTimer(gracePeriod)
	defer stop()
	select {
	case a := <-c.done:
		if a.err == nil {
			return a.value, nil
		}
		if isWatchdogCause(cause) {
			a.err = cause // the store only reports the cancellation
		}
		return a.value, a.err
	case <-timer:
	}
	c.opts.StuckCalls.addCalls(1)
	go func() {
		a := <-c.done
		if a.err == nil && c.release != nil {
			c.release(a.value)
		}
		c.opts.StuckCalls.addCalls(-1)
	}()
	var none R
	return none, cause
}

// isWatchdogCause reports whether the watchdog ended a call, as opposed to its caller.
func isWatchdogCause(cause error) bool {
	return cause != context.Canceled && cause != context.DeadlineExceeded //nolint:errorlint // cause is the error of a ctx or created here
}

// newOptionalTimer returns a channel that gets a value after d, or never if d is 0.
func newOptionalTimer(d time.Duration) (fired <-chan time.Time, stop func() bool) {
	if d <= 0 {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(d)
	return timer.C, timer.Stop
}
