// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// minBackoff and maxBackoff bound the pause before another start.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// starting is a start that is under way. It belongs to the Process and not to the call
// that began it: a binary that needs longer to start than its callers have time would
// never be ready otherwise.
type starting struct {
	// cancel ends the start.
	cancel context.CancelFunc
	// done is closed when the start has ended. err is set before that.
	done chan struct{}
	err  error
}

// await waits for the end of the start, or of ctx, and returns the error of either.
func (s *starting) await(ctx context.Context) error {
	if err := await(ctx, s.done); err != nil {
		return err
	}
	return s.err
}

// startLocked returns the start that is under way, and begins one if there is none. It
// is called with mu held.
func (p *Process) startLocked(ctx context.Context, force bool) (*starting, error) {
	switch now := p.host.Now(); {
	case p.starting != nil:
		return p.starting, nil
	case ctx.Err() != nil:
		return nil, interrupted(ctx)
	case !force && now.Before(p.nextStart):
		return nil, &StartError{Reason: ReasonCrashLoop, Err: p.lastErr, Message: fmt.Sprintf(
			"the plugin failed repeatedly and is started again later; the last failure: %s", p.lastErr)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	under := &starting{cancel: cancel, done: make(chan struct{})}
	p.starting = under
	p.watchers.Go(func() {
		defer cancel()
		p.carryOut(ctx, under)
	})
	return under, nil
}

// carryOut starts a child, which takes no longer than Config.StartTimeout.
func (p *Process) carryOut(ctx context.Context, under *starting) {
	i, err := start(ctx, p.host, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(under.done)
	p.starting = nil
	switch {
	case err != nil && p.closed:
		under.err = unloaded()
		return
	case err != nil:
		p.failures++
		p.lastErr = err
		p.nextStart = p.host.Now().Add(backoff(p.failures))
		under.err = err
		return
	}
	s := &session{instance: i, overdue: map[string]overdueCall{}, gone: make(chan struct{})}
	p.current = s
	p.watchers.Go(func() { p.watch(s) })
	if p.host.MaxMemory > 0 {
		p.watchers.Go(func() { p.guard(s) })
	}
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
	<-s.runner.exited
	s.stop(stopGrace)
	p.mu.Lock()
	unexpected := !s.stopping
	if unexpected {
		p.failures++
		p.lastErr = &LostError{Message: fmt.Sprintf("%s %s", filepath.Base(p.config.Path), s.runner.ending())}
		// The first exit in a row costs no pause: the next call starts a new child.
		p.nextStart = p.host.Now().Add(backoff(p.failures - 1))
	}
	if p.current == s {
		p.current = nil
	}
	p.mu.Unlock()
	close(s.gone)
	if unexpected {
		p.host.Logger.Info("Plugin process ended unexpectedly", "plugin", p.config.Name, "exit", s.runner.ending())
		if p.host.OnExit != nil {
			p.host.OnExit(p.config.Name)
		}
	}
}
