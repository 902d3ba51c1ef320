// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// stopGrace is how long a child may take to end after it was requested to.
const stopGrace = 5 * time.Second

// Process is one plugin binary and, most of the time, one child that runs it. The child is
// started on demand. Process is safe for concurrent use. Create it with NewProcess and close it
// with Close.
type Process struct {
	host   Settings
	config ProcessConfig

	opener
	currentSession *processSession
	lastCallID     uint64
}

// processSession is one child with its open calls.
type processSession struct {
	*instance
	active int
	// idle is closed when active becomes zero; nil while no goroutine waits for it.
	idle chan struct{}
	// overdueCalls are abandoned calls that the child had not ended.
	overdueCalls map[string]overdueCall
	// stopping is true if the child is being stopped on purpose.
	stopping bool
	// terminated is closed when the child is cleaned up.
	terminated chan struct{}
}

// NewProcess returns a Process without starting anything, or a *StartError if the configuration is
// invalid.
func NewProcess(host Settings, config ProcessConfig) (*Process, error) {
	if err := validateEnvironment(config.Env); err != nil {
		return nil, &StartError{Reason: ReasonInvalidSpec, Message: err.Error()}
	}
	host = host.withDefaults()
	if config.StartTimeout <= 0 {
		config.StartTimeout = DefaultStartTimeout
	}
	for name, value := range config.Env {
		if host.Redactor.IsSensitive(name) {
			host.Redactor.AddValues(value)
		}
	}
	return &Process{host: host, config: config, opener: opener{
		now: host.Now, delays: restartDelays, backoffReason: ReasonCrashLoop,
		backoffText: "the plugin failed repeatedly and is started again later; the last failure: %s",
	}}, nil
}

// EnsureReady starts the child if there is none, ignoring the back-off (the caller has its
// own), and always calls ProcessConfig.Verify. It takes at most twice the start timeout. If ctx
// ends first, the start continues until Close.
func (p *Process) EnsureReady(ctx context.Context) error {
	s, err := p.acquireSession(ctx, true)
	if err != nil {
		return err
	}
	err = p.verifySession(ctx, s)
	p.releaseSession(s)
	if !isConnectionLost(err) {
		return err
	}
	// The child died just now or does not respond: retry once with a new child.
	if s, err = p.acquireSession(ctx, true); err != nil {
		return err
	}
	defer p.releaseSession(s)
	return p.verifySession(ctx, s)
}

// verifySession calls ProcessConfig.Verify for a running child.
func (p *Process) verifySession(ctx context.Context, s *processSession) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.StartTimeout, errStartTimeout)
	defer cancel()
	callCtx, cancelCall := withoutDeadline(ctx)
	defer cancelCall()
	_, err := p.config.Verify(callCtx, newCallConn(s.conn))
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errStartTimeout):
		return &StartError{Reason: ReasonStartTimeout, Err: err, Message: fmt.Sprintf(
			"%s runs but did not list within %s what it provides: check why it hangs", filepath.Base(p.config.Path), p.config.StartTimeout)}
	case ctx.Err() != nil:
		return newInterruptedError(ctx)
	case isConnectionLost(err):
		_ = p.handleLostConnection(ctx, s, err)
		return err
	default:
		return err
	}
}

// IsRunning reports whether there is a child that calls can reach now.
func (p *Process) IsRunning() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.currentSession
	return s != nil && !p.closed && !s.stopping && !s.hasExited()
}

// acquireSession returns a session and counts an open call on it; releaseSession ends the
// call.
func (p *Process) acquireSession(ctx context.Context, force bool) (*processSession, error) {
	for {
		var err error
		p.mu.Lock()
		s := p.currentSession
		switch {
		case p.closed:
			p.mu.Unlock()
			return nil, newUnloadedError()
		case s == nil:
			var under *opening
			under, err = p.joinLocked(ctx, force, p.openSession)
			p.mu.Unlock()
			if err == nil {
				err = under.wait(ctx)
			}
		case s.stopping || s.hasExited():
			p.mu.Unlock()
			err = waitUntilClosed(ctx, s.terminated)
		case s.active == 0 && len(s.overdueCalls) > 0:
			p.mu.Unlock()
			err = p.waitForOverdueCalls(ctx, s)
		default:
			s.active++
			p.mu.Unlock()
			return s, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// waitUntilClosed waits until done is closed. It returns an error if ctx ends first.
func waitUntilClosed(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return newInterruptedError(ctx)
	}
}

func newInterruptedError(ctx context.Context) error {
	return &StartError{Reason: ReasonInterrupted, Message: "waiting for the plugin was interrupted", Err: ctx.Err()}
}

func newUnloadedError() error {
	return &StartError{Reason: ReasonUnloaded, Message: ErrUnloaded.Error(), Err: ErrUnloaded}
}

// releaseSession ends a call that acquireSession began.
func (p *Process) releaseSession(s *processSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.active--
	if s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// stopSession stops the child of s and waits for its end. The caller must ensure that no
// new call begins on it.
func (p *Process) stopSession(s *processSession, grace time.Duration) {
	s.stopInstance(grace)
	<-s.terminated
}

// Close rejects further calls, waits until the open ones have ended or giveUp is closed,
// and then stops the child with its process group. The child is cleaned up when Close
// returns. Close may be called more than once.
func (p *Process) Close(giveUp <-chan struct{}) {
	p.close()
	p.mu.Lock()
	s := p.currentSession
	var idle chan struct{}
	if s != nil && s.active > 0 {
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle = s.idle
	}
	p.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-s.terminated:
		case <-giveUp:
		}
	}
	p.mu.Lock()
	s = p.currentSession
	if s != nil {
		s.stopping = true
	}
	p.mu.Unlock()
	if s != nil {
		p.stopSession(s, stopGrace)
	}
	p.watchers.Wait()
}
