// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// restartDelays is the back-off before a restart.
var restartDelays = wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute}

// openSession starts a child within ProcessConfig.StartTimeout.
func (p *Process) openSession(ctx context.Context, attempt *opening) {
	i, err := startInstance(ctx, p.host, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endLocked(attempt, err)
	if err != nil {
		return
	}
	s := &processSession{instance: i, overdueCalls: map[string]overdueCall{}, terminated: make(chan struct{})}
	p.currentSession = s
	p.watchers.Go(func() { p.watchChildExit(s) })
	if p.host.MaxMemory > 0 {
		p.watchers.Go(func() { p.enforceMemoryLimit(s) })
	}
}

// watchChildExit waits for the end of a child and cleans it up.
func (p *Process) watchChildExit(s *processSession) {
	<-s.child.exited
	s.stopInstance(stopGrace)
	p.mu.Lock()
	unexpected := !s.stopping
	if unexpected {
		// The first exit in a row causes no back-off: the next call starts a new child.
		p.recordFailureLocked(&LostError{Message: fmt.Sprintf("%s %s", filepath.Base(p.config.Path), s.child.exitDescription())}, p.failures)
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
