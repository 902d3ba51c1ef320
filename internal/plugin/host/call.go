// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// logEndTimeout is how long a completed call waits for its last log line. It is reached
// only if the child's log is blocked.
const logEndTimeout = 5 * time.Second

// deadlineSlack is how far a child's clock may run ahead of the operator's clock.
const deadlineSlack = time.Second

// Call describes a call for Begin.
type Call struct {
	// Key is the idempotency key, or the UID of the run that the call belongs to.
	Key string
	// Log receives the lines that the child logs during the call.
	Log logr.Logger
	// RunLog receives lines that belong to one of several open calls with the same Key if
	// they cannot be assigned to one: the lines of plugins that do not mark calls. The
	// default is the Log of any of these calls.
	RunLog logr.Logger
}

// Connection is the connection to one plugin: a *Process or an *Endpoint.
type Connection interface {
	// EnsureReady starts the child or connects, if necessary, and verifies the plugin.
	EnsureReady(ctx context.Context) error
	// IsRunning reports whether calls can use the child or the connection now.
	IsRunning() bool
	// Begin opens a call, and starts the child or connects, if necessary. ctx must have a
	// deadline and is that of the gRPC call. The error is a *StartError if the plugin cannot be
	// reached, and that of ctx if it ended first.
	Begin(ctx context.Context, call Call) (OpenCall, error)
	// Close rejects further calls, waits until the open ones have ended or giveUp is closed,
	// and closes the connection.
	Close(giveUp <-chan struct{})
}

var (
	_ Connection = (*Process)(nil)
	_ Connection = (*Endpoint)(nil)
)

// VerifyFunc decides whether a started child or a new connection may be used.
type VerifyFunc func(ctx context.Context, conn grpc.ClientConnInterface) (Capabilities, error)

// OpenCall is one call of a plugin. Exactly one gRPC call is made on its connection.
type OpenCall interface {
	// Conn is the connection for the gRPC call.
	Conn() grpc.ClientConnInterface
	// ID is the ID of the call, which the request has.
	ID() string
	// End ends the call and must be called once. It takes the ctx and the error of the gRPC call, and
	// returns
	//
	//   - a *LostError if the connection broke during the call,
	//   - context.DeadlineExceeded or context.Canceled if ctx ended first,
	//   - otherwise err.
	//
	// After that, nothing is written to Call.Log.
	End(ctx context.Context, err error) error
}

// Begin implements Connection.
func (p *Process) Begin(ctx context.Context, call Call) (OpenCall, error) {
	s, err := p.acquireSession(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, toStartError(err)
	}
	id := p.nextCallID()
	return &processCall{
		process: p, session: s, conn: newCallConn(s.conn), id: id, log: s.router.beginCallLog(id, call), runLog: call.Log,
	}, nil
}

// processCall implements OpenCall.
type processCall struct {
	process *Process
	session *processSession
	conn    *callConn
	id      string
	log     *callLog
	runLog  logr.Logger
	// reached is true if the call reached the plugin's own code, which marks the end of its
	// log. It is set by End.
	reached bool
}

func (c *processCall) Conn() grpc.ClientConnInterface { return c.conn }

func (c *processCall) ID() string { return c.id }

// End implements OpenCall.
func (c *processCall) End(ctx context.Context, err error) error {
	defer c.process.releaseSession(c.session)
	defer c.log.detachRunLog()
	if where, ok := errorOrigin(err, c.process.host.Redactor); ok {
		c.runLog.V(1).Info("The plugin reports the origin of its error", "origin", where)
	}
	c.reached = c.conn.used.Load() && !isRejectedBeforeHandler(err)
	return c.process.finishCall(ctx, c.session, c, err)
}

// isRejectedBeforeHandler reports whether a call ended before it reached the plugin's own code,
// because it was too large or the service does not exist.
func isRejectedBeforeHandler(err error) bool {
	code := status.Code(err)
	return code == codes.ResourceExhausted || code == codes.Unimplemented
}

// toStartError makes the error of ProcessConfig.Verify distinguishable from the error of a call.
func toStartError(err error) error {
	if errors.As(err, new(*StartError)) {
		return err
	}
	return &StartError{Reason: ReasonStartFailed, Message: err.Error(), Err: err}
}

func (p *Process) nextCallID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastCallID++
	return strconv.FormatUint(p.lastCallID, 10)
}

// finishCall ends the log of a call and classifies its error.
func (p *Process) finishCall(ctx context.Context, s *processSession, call *processCall, err error) error {
	code := status.Code(err)
	if code == codes.Canceled || code == codes.DeadlineExceeded {
		waitForNearDeadline(ctx)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.markCallOverdue(s, call, ctx.Err())
		return ctx.Err()
	case code == codes.Unavailable, code == codes.Canceled && p.isStopping(s):
		defer s.router.removeCallLog(call.id)
		return p.handleLostConnection(ctx, s, err)
	}
	s.waitForLogEnd(call)
	s.router.removeCallLog(call.id)
	p.resetFailures()
	return err
}

// waitForNearDeadline waits for the end of ctx if it is near: the child also knows the
// deadline, and its clock may run slightly ahead.
func waitForNearDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
}

// isStopping reports whether the operator or the child has ended the connection of s.
func (p *Process) isStopping(s *processSession) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.stopping || s.hasExited()
}

// waitForLogEnd waits until all lines that the child logged during the call are read: they
// arrive on another channel than the response. A child that does not mark the end of a call
// has written them before its response.
func (s *processSession) waitForLogEnd(call *processCall) {
	if !call.reached {
		return
	}
	ended := (<-chan struct{})(call.log.ended)
	if !s.capabilities.MarksLogEnd {
		ended = s.child.log.drainSignal()
	}
	timer := time.NewTimer(logEndTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-s.child.exited:
	case <-timer.C:
	}
}

// markCallOverdue records an abandoned call that the child may still be working on. If the
// child does not mark the end of its calls, this is unknown: after a call that exceeded its
// deadline, the child may be stuck, and is not kept.
func (p *Process) markCallOverdue(s *processSession, call *processCall, cause error) {
	call.log.detachRunLog()
	if !s.capabilities.MarksLogEnd {
		s.router.removeAbandonedCall(call.id)
		if !errors.Is(cause, context.DeadlineExceeded) {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.pruneOverdueCalls()
	s.overdueCalls[call.id] = overdueCall{log: call.log, until: time.Now().Add(p.host.Grace)}
}

// overdueCall is an abandoned call with the end of its grace period. The period starts when
// the call is abandoned, not with the next call: a next call with a shorter deadline would
// only wait, and so would all that follow it.
type overdueCall struct {
	log   *callLog
	until time.Time
}

// pruneOverdueCalls removes the calls that have ended in the meantime. It is called with
// the mutex of the Process held.
func (s *processSession) pruneOverdueCalls() {
	for id, call := range s.overdueCalls {
		select {
		case <-call.log.ended:
			delete(s.overdueCalls, id)
		default:
		}
	}
}

// waitForOverdueCalls gives abandoned calls some time to end and restarts the child if they
// do not end: the next attempt would only wait behind them.
func (p *Process) waitForOverdueCalls(ctx context.Context, s *processSession) error {
	p.mu.Lock()
	calls := slices.SortedFunc(maps.Values(s.overdueCalls), func(a, b overdueCall) int { return a.until.Compare(b.until) })
	p.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := false
	for _, call := range calls {
		if over {
			break
		}
		timer.Reset(time.Until(call.until))
		select {
		case <-call.log.ended:
		case <-s.child.exited:
			over = true
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return newInterruptedError(ctx)
		}
	}
	p.mu.Lock()
	s.pruneOverdueCalls()
	restart := p.currentSession == s && !s.stopping && s.active == 0 && len(s.overdueCalls) > 0 && !s.hasExited()
	if restart {
		s.stopping = true
	}
	p.mu.Unlock()
	if restart {
		p.host.Logger.Info("Restarting plugin process because an abandoned call did not end", "plugin", p.config.Name)
		p.stopSession(s, stopGrace)
	}
	return nil
}

// handleLostConnection returns the error for a connection that broke during a call.
func (p *Process) handleLostConnection(ctx context.Context, s *processSession, cause error) error {
	name := filepath.Base(p.config.Path)
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	select {
	case <-s.child.exited:
		return &LostError{Err: cause, Message: fmt.Sprintf(
			"the plugin process %s %s during the call and is started again for the next one", name, s.child.exitDescription())}
	case <-ctx.Done():
	case <-timer.C:
	}
	// All calls share the connection. Without it, the child is useless.
	s.child.killUnlessExiting()
	return &LostError{Err: cause, Message: fmt.Sprintf(
		"the connection to the plugin process %s broke during the call; it is started again for the next one", name)}
}
