// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

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

// logWait is how long a call that was answered waits for its last log line. It is
// reached only if the child's log is jammed.
const logWait = 5 * time.Second

// deadlineSlack is how much faster than ours a child's clock may be.
const deadlineSlack = time.Second

// Call is what Do has to know about a call.
type Call struct {
	// Key is the idempotency key, or the UID of the run that the call belongs to.
	Key string
	// Log receives the lines that the child logs during the call.
	Log logr.Logger
	// RunLog receives lines that belong to one of several calls with the same Key that
	// are open, when nobody can tell to which: the lines of plugins that know nothing of
	// calls. By default that is the Log of any of them.
	RunLog logr.Logger
}

// Do makes one call: it starts the child if there is none and calls fn with a
// connection to it and an id for the call. fn makes exactly one gRPC call, with
// the ctx it gets, and returns its error. Do returns
//
//   - a *StartError if there is no child and none can be started,
//   - a *LostError if the connection broke during the call,
//   - context.DeadlineExceeded or context.Canceled if ctx ended first (a ctx without
//     deadline gets one of Host.CallTimeout),
//   - else what fn returned.
//
// When Do has returned, nothing is written to call.Log any more.
func (p *Process) Do(
	ctx context.Context, call Call, fn func(ctx context.Context, conn grpc.ClientConnInterface, callID string) error,
) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.host.CallTimeout)
		defer cancel()
	}
	s, err := p.acquire(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return asStartError(err)
	}
	defer p.release(s)
	callID := p.nextCallID()
	log := s.router.begin(callID, call)
	// Whatever happens, also a panic of fn: the log of the run is left alone.
	defer log.detach()
	conn := newConn(s.conn)
	err = fn(ctx, conn, callID)
	if where, ok := origin(err, p.host.Redactor); ok {
		call.Log.V(1).Info("The plugin says where its error comes from", "origin", where)
	}
	return p.finish(ctx, s, openCall{id: callID, log: log, reached: conn.used.Load() && !isRefused(err)}, err)
}

// isRefused reports whether a call ended before it reached the plugin's own code: it was
// too large, or for a service that is not there.
func isRefused(err error) bool {
	code := status.Code(err)
	return code == codes.ResourceExhausted || code == codes.Unimplemented
}

// asStartError makes what Config.Verify returned distinguishable from the answer of
// a call.
func asStartError(err error) error {
	if errors.As(err, new(*StartError)) {
		return err
	}
	return &StartError{Reason: ReasonStartFailed, Message: err.Error(), Err: err}
}

// openCall is a call that Do has made.
type openCall struct {
	id  string
	log *sink
	// reached says that the plugin's own code was asked, which marks the end of its log.
	reached bool
}

func (p *Process) nextCallID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastCall++
	return strconv.FormatUint(p.lastCall, 10)
}

// finish ends the log of a call and classifies its error.
func (p *Process) finish(ctx context.Context, s *session, call openCall, err error) error {
	code := status.Code(err)
	if code == codes.Canceled || code == codes.DeadlineExceeded {
		awaitDeadline(ctx)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.abandon(s, call, ctx.Err())
		return ctx.Err()
	case code == codes.Unavailable, code == codes.Canceled && p.isEnding(s):
		defer s.router.forget(call.id)
		return p.lost(ctx, s, err)
	}
	s.awaitLog(call)
	s.router.forget(call.id)
	p.mu.Lock()
	p.failures = 0
	p.mu.Unlock()
	return err
}

// awaitDeadline waits for the end of ctx if it is near: the child knows the deadline,
// too, and its clock may be a little faster than ours.
func awaitDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
}

// isEnding reports whether we or the child have ended the connection of s.
func (p *Process) isEnding(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.stopping || s.hasExited()
}

// awaitLog waits until all lines that the child logged during the call are read:
// they come another way than the answer. A child that does not mark the end of a call
// has written them before it answered.
func (s *session) awaitLog(call openCall) {
	if !call.reached {
		return
	}
	ended := (<-chan struct{})(call.log.ended)
	if !s.abilities.LogEnd {
		ended = s.runner.log.drained()
	}
	timer := time.NewTimer(logWait)
	defer timer.Stop()
	select {
	case <-ended:
	case <-s.runner.exited:
	case <-timer.C:
	}
}

// abandon notes a call that we no longer wait for and that the child may still be
// working on. Of a child that does not mark the end of its calls nobody knows whether it
// is: if a call ran into its deadline the child may be stuck, and is not kept.
func (p *Process) abandon(s *session, call openCall, cause error) {
	call.log.detach()
	if !s.abilities.LogEnd {
		s.router.stray(call.id)
		if !errors.Is(cause, context.DeadlineExceeded) {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.pruneOverdue()
	s.overdue[call.id] = overdueCall{log: call.log, until: time.Now().Add(p.host.Grace)}
}

// overdueCall is a call that was abandoned, and when its grace ends. It counts from
// then, and not from the next call: one that has less time than that would only wait,
// as would all that follow it.
type overdueCall struct {
	log   *sink
	until time.Time
}

// pruneOverdue removes the calls that have ended meanwhile. It is called with the
// mutex of the Process held.
func (s *session) pruneOverdue() {
	for id, call := range s.overdue {
		select {
		case <-call.log.ended:
			delete(s.overdue, id)
		default:
		}
	}
}

// clearOverdue gives abandoned calls some time to end and restarts the child if
// they do not: the next attempt would only wait behind them.
func (p *Process) clearOverdue(ctx context.Context, s *session) error {
	p.mu.Lock()
	calls := slices.SortedFunc(maps.Values(s.overdue), func(a, b overdueCall) int { return a.until.Compare(b.until) })
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
		case <-s.runner.exited:
			over = true
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
	p.mu.Lock()
	s.pruneOverdue()
	restart := p.current == s && !s.stopping && s.active == 0 && len(s.overdue) > 0 && !s.hasExited()
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

// lost explains a connection that broke during a call.
func (p *Process) lost(ctx context.Context, s *session, cause error) error {
	name := filepath.Base(p.config.Path)
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-s.runner.exited:
		return &LostError{Err: cause, Message: fmt.Sprintf(
			"the plugin process %s %s during the call and is started again for the next one", name, s.runner.ending())}
	case <-ctx.Done():
	case <-timer.C:
	}
	// The connection is shared by all calls, and it is gone: so is the use of this
	// child.
	s.runner.kill()
	return &LostError{Err: cause, Message: fmt.Sprintf(
		"the connection to the plugin process %s broke during the call; it is started again for the next one", name)}
}
