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
	// logEndTimeout is how long a completed call waits for its last log line. It is reached
	// only if the log of the plugin is blocked, or takes another network path than its
	// calls.
	logEndTimeout = 5 * time.Second
	// deadlineSlack is how far a server's clock may run ahead of the operator's clock.
	deadlineSlack = time.Second
)

// Begin opens a call as process.Process.Begin does, and connects if there is no connection. Lines
// that the plugin logs for an abandoned call are written to Config.Logger. call.RunLog is not
// needed: every line identifies its call.
func (e *Endpoint) Begin(ctx context.Context, call process.Call) (process.OpenCall, error) {
	s, err := e.acquireSession(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, toStartError(err)
	}
	lines := s.activeLogStream(ctx)
	id := lines.newCallID()
	return &openCall{
		endpoint: e, session: s, lines: lines, id: id, log: lines.beginCallLog(id, call.Log),
		conn: &callConn{ClientConnInterface: s.conn},
	}, nil
}

// openCall implements process.OpenCall.
type openCall struct {
	endpoint *Endpoint
	session  *session
	conn     *callConn
	id       string
	lines    *logStream
	log      *callLog
}

func (c *openCall) Conn() grpc.ClientConnInterface { return c.conn }

func (c *openCall) ID() string { return c.id }

// End implements process.OpenCall.
func (c *openCall) End(ctx context.Context, err error) error {
	defer c.endpoint.releaseSession(c.session)
	defer c.log.detachRunLog()
	if gone := c.endpoint.unansweredCallError(ctx, c.session, err); gone != nil {
		return gone
	}
	if c.conn.used.Load() && !isRejectedBeforeHandler(err) {
		c.session.waitForLogEnd(c.lines, c.log)
	}
	c.lines.removeCallLog(c.id)
	c.endpoint.resetFailures()
	return err
}

// unansweredCallError returns why a call has no response, nil if it has one.
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

// waitForNearDeadline waits for the end of ctx if it is near: the server also knows the deadline,
// and its clock may run slightly ahead.
func waitForNearDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
}

// handleLostConnection returns the error for a connection that broke during a call. All calls share
// the connection, so no further call begins on it.
func (e *Endpoint) handleLostConnection(s *session, cause error) error {
	closed := e.isClosed()
	s.retire()
	if closed {
		return &process.LostError{Err: cause, Message: "the plugin was unloaded during the call"}
	}
	return &process.LostError{Err: cause, Message: "the connection to the plugin at " + e.config.Address +
		" broke during the call; the next call reconnects"}
}

// isRejectedBeforeHandler reports whether a call ended before it reached the plugin's own code,
// because it was too large or the service does not exist.
func isRejectedBeforeHandler(err error) bool {
	code := status.Code(err)
	return code == codes.ResourceExhausted || code == codes.Unimplemented
}

// waitForLogEnd waits until all lines that the plugin logged during the call are read: they
// arrive on another stream than the response.
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

// callConn is the connection of one call.
type callConn struct {
	grpc.ClientConnInterface
	// used is true after a call began.
	used atomic.Bool
}

// Invoke makes a call.
func (c *callConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.used.Store(true)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream starts a streaming call.
func (c *callConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.used.Store(true)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}
