// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Begin implements Connection. Lines that the plugin logs for an abandoned call are written to EndpointConfig.Logger. call.RunLog is not
// needed: every line identifies its call.
func (e *Endpoint) Begin(ctx context.Context, call Call) (OpenCall, error) {
	s, err := e.acquireSession(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, toStartError(err)
	}
	lines := s.activeLogStream(ctx)
	id := lines.newCallID()
	return &endpointCall{
		endpoint: e, session: s, lines: lines, id: id, log: lines.beginCallLog(id, call.Log),
		conn: newCallConn(s.conn),
	}, nil
}

// endpointCall implements OpenCall.
type endpointCall struct {
	endpoint *Endpoint
	session  *endpointSession
	conn     *callConn
	id       string
	lines    *logStream
	log      *streamCallLog
}

func (c *endpointCall) Conn() grpc.ClientConnInterface { return c.conn }

func (c *endpointCall) ID() string { return c.id }

// End implements OpenCall.
func (c *endpointCall) End(ctx context.Context, err error) error {
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
func (e *Endpoint) unansweredCallError(ctx context.Context, s *endpointSession, err error) error {
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

// handleLostConnection returns the error for a connection that broke during a call. All calls share
// the connection, so no further call begins on it.
func (e *Endpoint) handleLostConnection(s *endpointSession, cause error) error {
	closed := e.isClosed()
	s.retire()
	if closed {
		return &LostError{Err: cause, Message: "the plugin was unloaded during the call"}
	}
	return &LostError{Err: cause, Message: "the connection to the plugin at " + e.config.Address +
		" broke during the call; the next call reconnects"}
}

// waitForLogEnd waits until all lines that the plugin logged during the call are read: they
// arrive on another stream than the response.
func (s *endpointSession) waitForLogEnd(lines *logStream, log *streamCallLog) {
	timer := time.NewTimer(logEndTimeout)
	defer timer.Stop()
	select {
	case <-log.ended:
	case <-lines.stopped:
	case <-s.terminated:
	case <-timer.C:
	}
}
