// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

// opening is a start of a child, or an attempt to connect, in progress. It belongs to the plugin and
// not to the call that began it: otherwise a plugin that needs longer than the deadlines of its
// callers would never be ready.
type opening struct {
	// cancel ends the attempt.
	cancel context.CancelFunc
	// done is closed when the attempt has ended. err is set before that.
	done chan struct{}
	err  error
}

// wait waits for the end of the attempt or of ctx, and returns its error.
func (o *opening) wait(ctx context.Context) error {
	if err := waitUntilClosed(ctx, o.done); err != nil {
		return err
	}
	return o.err
}

// startOrJoinLocked returns the start in progress, or begins one. It is called with mu held.
func (p *Process) startOrJoinLocked(ctx context.Context, force bool) (*opening, error) {
	switch now := p.host.Now(); {
	case p.pendingStart != nil:
		return p.pendingStart, nil
	case ctx.Err() != nil:
		return nil, newInterruptedError(ctx)
	case !force && now.Before(p.nextStart):
		return nil, &StartError{Reason: ReasonCrashLoop, Err: p.lastErr, Message: fmt.Sprintf(
			"the plugin failed repeatedly and is started again later; the last failure: %s", p.lastErr)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	under := &opening{cancel: cancel, done: make(chan struct{})}
	p.pendingStart = under
	p.watchers.Go(func() {
		defer cancel()
		p.runPendingStart(ctx, under)
	})
	return under, nil
}

// runPendingStart starts a child within ProcessConfig.StartTimeout.
func (p *Process) runPendingStart(ctx context.Context, under *opening) {
	i, err := startInstance(ctx, p.host, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(under.done)
	p.pendingStart = nil
	switch {
	case err != nil && p.closed:
		under.err = newUnloadedError()
		return
	case err != nil:
		p.failures++
		p.lastErr = err
		p.nextStart = p.host.Now().Add(restartBackoff(p.failures))
		under.err = err
		return
	}
	s := &processSession{instance: i, overdueCalls: map[string]overdueCall{}, terminated: make(chan struct{})}
	p.currentSession = s
	p.watchers.Go(func() { p.watchChildExit(s) })
	if p.host.MaxMemory > 0 {
		p.watchers.Go(func() { p.enforceMemoryLimit(s) })
	}
}

// restartBackoff returns the back-off before a restart, after the n-th failure in a row.
func restartBackoff(n int) time.Duration {
	return backoff.Delay(wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute}, n)
}

// watchChildExit waits for the end of a child and cleans it up.
func (p *Process) watchChildExit(s *processSession) {
	<-s.child.exited
	s.stopInstance(stopGrace)
	p.mu.Lock()
	unexpected := !s.stopping
	if unexpected {
		p.failures++
		p.lastErr = &LostError{Message: fmt.Sprintf("%s %s", filepath.Base(p.config.Path), s.child.exitDescription())}
		// The first exit in a row causes no back-off: the next call starts a new child.
		p.nextStart = p.host.Now().Add(restartBackoff(p.failures - 1))
	}
	if p.currentSession == s {
		p.currentSession = nil
	}
	p.mu.Unlock()
	close(s.terminated)
	if unexpected {
		p.host.Logger.Info("Plugin process ended unexpectedly", "plugin", p.config.Name, "exit", s.child.exitDescription())
		if p.host.OnExit != nil {
			p.host.OnExit(p.config.Name)
		}
	}
}
