// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// Spawner starts child processes from one OS thread that lives until Close.
//
// The kernel sends a child its parent-death signal when the *thread* that created it ends,
// and the Go runtime ends idle threads at any time. With one thread for all children, held
// as long as the program needs them, the signal is sent when the parent process ends.
// Spawner is safe for concurrent use.
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

var errSpawnerClosed = errors.New("no more processes are started")

// NewSpawner starts the thread. Call Close to end it after all children have ended.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest), quit: make(chan struct{}), done: make(chan struct{})}
	go s.serveRequests()
	return s
}

// serveRequests never unlocks its thread: this makes the thread end with it, and kills the
// remaining children.
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

// startCommand starts cmd and returns the error of cmd.Start.
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
