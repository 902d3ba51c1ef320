// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

// opening is a start of a child, or an attempt to connect, in progress. It belongs to the plugin and
// not to the call that began it: otherwise a plugin that needs longer than the deadlines of its
// callers would never be ready.
type opening struct {
	// cancel ends the attempt.
	cancel context.CancelFunc
	// done is closed when the attempt has ended. err is set before that.
	done chan struct{}
	err  error
}

// wait waits for the end of the attempt or of ctx, and returns its error.
func (o *opening) wait(ctx context.Context) error {
	if err := waitUntilClosed(ctx, o.done); err != nil {
		return err
	}
	return o.err
}

// opener is what a Process and an Endpoint have in common: one attempt at a time, and the back-off
// after failures.
type opener struct {
	now func() time.Time
	// delays is the back-off after failures in a row. backoffReason and backoffText, with %s for the
	// last failure, are the error during it.
	delays        wait.Backoff
	backoffReason Reason
	backoffText   string

	mu sync.Mutex
	// attempt is the attempt in progress; there is no current session then.
	attempt *opening
	closed  bool
	// failures counts failed attempts and losses since the last response.
	failures    int
	lastErr     error
	nextAttempt time.Time
	// watchers are the goroutines that make attempts, or wait for the end of a session.
	watchers sync.WaitGroup
}

// joinLocked returns the attempt in progress, or begins one that open makes. During the back-off it
// returns an error, unless force is set. It is called with mu held.
func (o *opener) joinLocked(ctx context.Context, force bool, open func(context.Context, *opening)) (*opening, error) {
	switch now := o.now(); {
	case o.attempt != nil:
		return o.attempt, nil
	case ctx.Err() != nil:
		return nil, newInterruptedError(ctx)
	case !force && now.Before(o.nextAttempt):
		return nil, &StartError{Reason: o.backoffReason, Err: o.lastErr, Message: fmt.Sprintf(o.backoffText, o.lastErr)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	attempt := &opening{cancel: cancel, done: make(chan struct{})}
	o.attempt = attempt
	o.watchers.Go(func() {
		defer cancel()
		open(ctx, attempt)
	})
	return attempt, nil
}

// endLocked ends an attempt, with the error if there is one. It is called with mu held.
func (o *opener) endLocked(attempt *opening, err error) {
	o.attempt = nil
	switch {
	case err != nil && o.closed:
		attempt.err = newUnloadedError()
	case err != nil:
		attempt.err = err
		o.recordFailureLocked(err, o.failures+1)
	}
	close(attempt.done)
}

// recordFailureLocked records a failure and sets the back-off of the n-th one in a row. It is called
// with mu held.
func (o *opener) recordFailureLocked(err error, n int) {
	o.failures++
	o.lastErr = err
	o.nextAttempt = o.now().Add(backoff.Delay(o.delays, n))
}

// resetFailures resets the back-off after a response of the plugin.
func (o *opener) resetFailures() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = 0
}

// close rejects further calls, and ends the attempt in progress.
func (o *opener) close() {
	o.mu.Lock()
	o.closed = true
	attempt := o.attempt
	o.mu.Unlock()
	if attempt != nil {
		attempt.cancel()
		<-attempt.done
	}
}

func (o *opener) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}
