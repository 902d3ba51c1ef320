// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"time"
)

// errTransferIdle is the cause that ends a transfer without progress.
var errTransferIdle = errors.New("the plugin made no progress for too long; check its log and the service that it uses")

// transfer bounds a call by its progress: it cancels the call when it has waited for the
// plugin too long.
type transfer struct {
	idle    time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
	release context.CancelFunc
}

// beginTransfer returns the ctx of a transfer. The caller must call endTransfer.
func beginTransfer(ctx context.Context, idle time.Duration) (context.Context, *transfer) {
	// Without a deadline of its own, the call would get a default one.
	ctx, free := context.WithTimeout(ctx, maxTransferTime)
	ctx, cancel := context.WithCancelCause(ctx)
	t := &transfer{idle: idle, cancel: cancel, release: free}
	t.timer = time.AfterFunc(idle, func() { cancel(errTransferIdle) })
	return ctx, t
}

// pauseTimer is called while the transfer waits for the caller.
func (t *transfer) pauseTimer() { t.timer.Stop() }

// resumeTimer is called while the transfer waits for the plugin.
func (t *transfer) resumeTimer() { t.timer.Reset(t.idle) }

// endTransfer releases the ctx and its timer.
func (t *transfer) endTransfer() {
	t.timer.Stop()
	t.cancel(nil)
	t.release()
}

// toIdleError returns err, or the cause if the transfer was ended.
func toIdleError(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTransferIdle) {
		return errTransferIdle
	}
	return err
}
