// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"time"
)

// errIdle is why a transfer was ended that made no progress.
var errIdle = errors.New("the plugin made no progress for too long")

// transfer bounds a call by its progress: it is ended when the plugin lets it wait
// for too long.
type transfer struct {
	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	free   context.CancelFunc
}

// begin returns the ctx of a transfer, which the caller ends with end.
func begin(ctx context.Context, idle time.Duration) (context.Context, *transfer) {
	// Without a deadline of its own, the call would get a fixed one.
	ctx, free := context.WithTimeout(ctx, maxTransfer)
	ctx, cancel := context.WithCancelCause(ctx)
	t := &transfer{idle: idle, cancel: cancel, free: free}
	t.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
	return ctx, t
}

// pause is called when it is the caller's turn.
func (t *transfer) pause() { t.timer.Stop() }

// resume is called when it is the plugin's turn.
func (t *transfer) resume() { t.timer.Reset(t.idle) }

// end frees the ctx and what waits for it.
func (t *transfer) end() {
	t.timer.Stop()
	t.cancel(nil)
	t.free()
}

// explain returns err, or why the transfer was ended.
func explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return err
}
