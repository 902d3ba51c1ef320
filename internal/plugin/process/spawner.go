// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// Spawner starts child processes from one OS thread that lives until Close.
//
// The kernel sends a child its parent-death signal when the *thread* that created
// it ends, and the Go runtime ends idle threads as it likes. One thread for all
// children, held as long as the program needs them, makes the signal mean what
// its name says. It is safe for concurrent use.
type Spawner struct {
	requests chan spawnRequest
	quit     chan struct{}
	done     chan struct{}
	once     sync.Once
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

var errSpawnerClosed = errors.New("no processes are started any more")

// NewSpawner starts the thread. Call Close to end it, after all children.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest), quit: make(chan struct{}), done: make(chan struct{})}
	go s.serveRequests()
	return s
}

// serveRequests never unlocks its thread: that is what makes the thread end with it, and
// children that are still there then are killed.
func (s *Spawner) serveRequests() {
	runtime.LockOSThread()
	defer close(s.done)
	for {
		select {
		case r := <-s.requests:
			r.result <- r.cmd.Start()
		case <-s.quit:
			return
		}
	}
}

// startCommand starts cmd and returns what cmd.Start returned.
func (s *Spawner) startCommand(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	select {
	case s.requests <- spawnRequest{cmd: cmd, result: result}:
		return <-result
	case <-s.done:
		return errSpawnerClosed
	}
}

// Close ends the thread and, on Linux, all children with it.
func (s *Spawner) Close() {
	s.once.Do(func() { close(s.quit) })
	<-s.done
}
