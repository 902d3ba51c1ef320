// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

const (
	// logEndTimeout is how long a call that was answered waits for its last log line. It is
	// reached only if the log of the plugin is jammed, or goes another way than its calls.
	logEndTimeout = 5 * time.Second
	// deadlineSlack is how much faster than ours a server's clock may be.
	deadlineSlack = time.Second
)

// Do makes one call as process.Process.Do does: it connects if there is no connection and
// calls fn with one and an id for the call. fn makes exactly one gRPC call, with the ctx it
// gets, and returns its error. Do returns
//
//   - a *process.StartError if there is no connection and none can be made,
//   - a *process.LostError if the connection broke during the call,
//   - context.DeadlineExceeded or context.Canceled if ctx ended first (a ctx without
//     deadline gets one of Config.CallTimeout),
//   - else what fn returned.
//
// When Do has returned, nothing is written to call.Log any more. What the plugin still logs
// for a call that nobody waits for goes to Config.Logger. call.RunLog is not needed: every
// line says which call it belongs to.
func (e *Endpoint) Do(
	ctx context.Context, call process.Call, fn func(ctx context.Context, conn grpc.ClientConnInterface, callID string) error,
) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.config.CallTimeout)
		defer cancel()
	}
	s, err := e.acquireSession(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return toStartError(err)
	}
	defer e.releaseSession(s)
	lines := s.activeLogStream(ctx)
	callID := lines.newCallID()
	log := lines.beginCallLog(callID, call.Log)
	// Whatever happens, also a panic of fn: the log of the run is left alone.
	defer log.detachRunLog()
	conn := &callConn{ClientConnInterface: s.conn}
	err = fn(ctx, conn, callID)
	if gone := e.unansweredCallError(ctx, s, err); gone != nil {
		return gone
	}
	if conn.used.Load() && !isRejectedBeforeHandler(err) {
		s.waitForLogEnd(lines, log)
	}
	lines.removeCallLog(callID)
	e.resetFailures()
	return err
}

// unansweredCallError returns why a call has no answer, nil if it has one.
func (e *Endpoint) unansweredCallError(ctx context.Context, s *session, err error) error {
	code := status.Code(err)
	if code == codes.Canceled || code == codes.DeadlineExceeded {
		waitForNearDeadline(ctx)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case code == codes.Unavailable, code == codes.Canceled && s.isRetired():
		return e.handleLostConnection(s, err)
	default:
		return nil
	}
}

// waitForNearDeadline waits for the end of ctx if it is near: the server knows the deadline, too,
// and its clock may be a little faster than ours.
func waitForNearDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
}

// handleLostConnection explains a connection that broke during a call. It is shared by all calls: no other
// begins on it.
func (e *Endpoint) handleLostConnection(s *session, cause error) error {
	closed := e.isClosed()
	s.retire()
	if closed {
		return &process.LostError{Err: cause, Message: "the plugin was unloaded during the call"}
	}
	return &process.LostError{Err: cause, Message: "the connection to the plugin at " + e.config.Address +
		" broke during the call; it is made again for the next one"}
}

// isRejectedBeforeHandler reports whether a call ended before it reached the plugin's own code: it was
// too large, or for a service that is not there.
func isRejectedBeforeHandler(err error) bool {
	code := status.Code(err)
	return code == codes.ResourceExhausted || code == codes.Unimplemented
}

// waitForLogEnd waits until all lines that the plugin logged during the call are read: they come
// another way than the answer.
func (s *session) waitForLogEnd(lines *logStream, log *callLog) {
	timer := time.NewTimer(logEndTimeout)
	defer timer.Stop()
	select {
	case <-log.ended:
	case <-lines.stopped:
	case <-s.terminated:
	case <-timer.C:
	}
}

// callConn is the connection as one call sees it.
type callConn struct {
	grpc.ClientConnInterface
	// used says that a call was begun.
	used atomic.Bool
}

// Invoke makes a call.
func (c *callConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.used.Store(true)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream begins a call with a stream.
func (c *callConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.used.Store(true)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}
