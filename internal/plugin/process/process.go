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

const (
	// stopGrace is how long a child may take to end when it is asked to.
	stopGrace = 5 * time.Second
	// minBackoff and maxBackoff bound the pause before another start.
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// Process is one plugin binary and, most of the time, one child that runs it. The
// child is started when it is needed. It is safe for concurrent use. Create it
// with New and end it with Close.
type Process struct {
	host   Host
	config Config

	mu      sync.Mutex
	current *session
	// starting is closed when the start that is under way has ended.
	starting chan struct{}
	// cancelStart ends the start that is under way.
	cancelStart context.CancelFunc
	closed      bool
	// failures counts failed starts and unexpected exits since the last answer.
	failures  int
	lastErr   error
	nextStart time.Time
	lastCall  uint64
	// watchers are the goroutines that wait for the end of a child.
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
// most twice the start timeout.
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
	_, err := p.config.Verify(callCtx, s.conn)
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

// acquire returns a session with one more open call; release gives it back.
func (p *Process) acquire(ctx context.Context, force bool) (*session, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, &StartError{Reason: ReasonClosed, Message: ErrClosed.Error(), Err: ErrClosed}
		}
		s, wait := p.current, p.starting
		switch {
		case s != nil && (s.stopping || s.hasExited()):
			wait = s.gone
		case s != nil && s.active == 0 && len(s.overdue) > 0:
			p.mu.Unlock()
			if err := p.clearOverdue(ctx, s); err != nil {
				return nil, err
			}
			continue
		case s != nil:
			s.active++
			p.mu.Unlock()
			return s, nil
		case wait == nil:
			if err := p.startLocked(ctx, force); err != nil {
				return nil, err
			}
			continue
		}
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, interrupted(ctx)
		}
	}
}

func interrupted(ctx context.Context) error {
	return &StartError{Reason: ReasonInterrupted, Message: "waiting for the plugin was interrupted", Err: ctx.Err()}
}

// startLocked starts a child. It is called with mu held and releases it.
func (p *Process) startLocked(ctx context.Context, force bool) error {
	if now := p.host.Now(); !force && now.Before(p.nextStart) {
		err := p.lastErr
		p.mu.Unlock()
		return &StartError{Reason: ReasonCrashLoop, Err: err, Message: fmt.Sprintf(
			"the plugin failed repeatedly and is started again later; the last failure: %s", err)}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.starting, p.cancelStart = done, cancel
	p.mu.Unlock()
	i, err := start(ctx, p.host, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting = nil
	close(done)
	if err != nil {
		if e := new(StartError); !errors.As(err, &e) || e.Reason != ReasonInterrupted {
			p.failures++
			p.lastErr = err
			p.nextStart = p.host.Now().Add(backoff(p.failures))
		}
		return err
	}
	p.current = &session{instance: i, overdue: map[string]overdueCall{}, gone: make(chan struct{})}
	p.watchers.Add(1)
	go p.watch(p.current)
	return nil
}

// backoff returns the pause after the n-th failure in a row.
func backoff(n int) time.Duration {
	if n < 1 {
		return 0
	}
	pause := minBackoff
	for ; n > 1 && pause < maxBackoff; n-- {
		pause *= 2
	}
	return min(pause, maxBackoff)
}

// watch waits for the end of a child and removes what is left of it.
func (p *Process) watch(s *session) {
	defer p.watchers.Done()
	<-s.runner.exited
	s.stop(stopGrace)
	p.mu.Lock()
	unexpected := !s.stopping
	if unexpected {
		p.failures++
		p.lastErr = &LostError{Message: fmt.Sprintf("%s %s", filepath.Base(p.config.Path), exitText(s.runner.state))}
		// The first exit in a row costs no pause: the next call starts a new child.
		p.nextStart = p.host.Now().Add(backoff(p.failures - 1))
	}
	if p.current == s {
		p.current = nil
	}
	p.mu.Unlock()
	close(s.gone)
	if unexpected {
		p.host.Logger.Info("Plugin process ended unexpectedly", "plugin", p.config.Name, "exit", exitText(s.runner.state))
		if p.host.OnExit != nil {
			p.host.OnExit(p.config.Name)
		}
	}
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
	starting := p.starting
	if starting != nil {
		p.cancelStart()
	}
	p.mu.Unlock()
	if starting != nil {
		<-starting
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
