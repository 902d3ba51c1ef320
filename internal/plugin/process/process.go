// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// stopGrace is how long a child may take to end when it is asked to.
const stopGrace = 5 * time.Second

// Process is one plugin binary and, most of the time, one child that runs it. The
// child is started when it is needed. It is safe for concurrent use. Create it
// with New and end it with Close.
type Process struct {
	host   Host
	config Config

	mu      sync.Mutex
	current *session
	// starting is the start that is under way; there is no current child then.
	starting *starting
	closed   bool
	// failures counts failed starts and unexpected exits since the last answer.
	failures  int
	lastErr   error
	nextStart time.Time
	lastCall  uint64
	// watchers are the goroutines that start a child or wait for its end.
	watchers sync.WaitGroup
}

// session is one child with the calls that are open on it.
type session struct {
	*instance
	active int
	// idle is closed when active becomes zero; nil while nobody waits for it.
	idle chan struct{}
	// overdue are calls that the child had not ended when we stopped waiting.
	overdue map[string]overdueCall
	// stopping says that the end of the child is wanted.
	stopping bool
	// gone is closed when nothing is left of the child.
	gone chan struct{}
}

// New returns a Process without starting anything, or a *StartError if the
// configuration is wrong.
func New(host Host, config Config) (*Process, error) {
	if err := validateEnv(config.Env); err != nil {
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
	return &Process{host: host, config: config}, nil
}

// Ensure starts the child if there is none, without regard to the back-off (the
// caller has its own), and asks Config.Verify about it in any case. It takes at
// most twice the start timeout. A start goes on when ctx ends first: Close ends it.
func (p *Process) Ensure(ctx context.Context) error {
	s, err := p.acquire(ctx, true)
	if err != nil {
		return err
	}
	err = p.verify(ctx, s)
	p.release(s)
	if !isBroken(err) {
		return err
	}
	// It died just now, or it is deaf: once more with a new one.
	if s, err = p.acquire(ctx, true); err != nil {
		return err
	}
	defer p.release(s)
	return p.verify(ctx, s)
}

// verify asks Config.Verify about a child that runs already.
func (p *Process) verify(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.StartTimeout, errStartTimeout)
	defer cancel()
	callCtx, cancelCall := withoutDeadline(ctx)
	defer cancelCall()
	_, err := p.config.Verify(callCtx, newConn(s.conn))
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errStartTimeout):
		return &StartError{Reason: ReasonStartTimeout, Err: err, Message: fmt.Sprintf(
			"%s runs but did not say within %s what it provides: check why it hangs", filepath.Base(p.config.Path), p.config.StartTimeout)}
	case ctx.Err() != nil:
		return interrupted(ctx)
	case isBroken(err):
		_ = p.lost(ctx, s, err)
		return err
	default:
		return err
	}
}

// Running reports whether there is a child that calls reach now.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.current
	return s != nil && !p.closed && !s.stopping && !s.hasExited()
}

// acquire returns a session with one more open call; release gives it back.
func (p *Process) acquire(ctx context.Context, force bool) (*session, error) {
	for {
		var err error
		p.mu.Lock()
		s := p.current
		switch {
		case p.closed:
			p.mu.Unlock()
			return nil, unloaded()
		case s == nil:
			var under *starting
			under, err = p.startLocked(ctx, force)
			p.mu.Unlock()
			if err == nil {
				err = under.await(ctx)
			}
		case s.stopping || s.hasExited():
			p.mu.Unlock()
			err = await(ctx, s.gone)
		case s.active == 0 && len(s.overdue) > 0:
			p.mu.Unlock()
			err = p.clearOverdue(ctx, s)
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

// await waits until done is closed or ctx ends, which is an error.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return interrupted(ctx)
	}
}

func interrupted(ctx context.Context) error {
	return &StartError{Reason: ReasonInterrupted, Message: "waiting for the plugin was interrupted", Err: ctx.Err()}
}

func unloaded() error {
	return &StartError{Reason: ReasonClosed, Message: ErrClosed.Error(), Err: ErrClosed}
}

// release ends what acquire began.
func (p *Process) release(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.active--
	if s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// stopSession ends the child of s and waits for that. The caller has made sure
// that no new call begins on it.
func (p *Process) stopSession(s *session, grace time.Duration) {
	s.stop(grace)
	<-s.gone
}

// Close refuses further calls, waits until the open ones have ended or giveUp is
// closed, and then ends the child with its process group. Nothing is left of it
// when Close returns. It may be called more than once.
func (p *Process) Close(giveUp <-chan struct{}) {
	p.mu.Lock()
	p.closed = true
	s := p.current
	var idle chan struct{}
	if s != nil && s.active > 0 {
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle = s.idle
	}
	under := p.starting
	p.mu.Unlock()
	if under != nil {
		under.cancel()
		<-under.done
	}
	if idle != nil {
		select {
		case <-idle:
		case <-s.gone:
		case <-giveUp:
		}
	}
	p.mu.Lock()
	s = p.current
	if s != nil {
		s.stopping = true
	}
	p.mu.Unlock()
	if s != nil {
		p.stopSession(s, stopGrace)
	}
	p.watchers.Wait()
}
