// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

const (
	stopTimeout  = 30 * time.Second
	restartDelay = 200 * time.Millisecond
)

// supervisor runs a program, and starts it again when it ends. Its methods may be called from several
// goroutines.
type supervisor struct {
	// log is the path of the log, which all processes append to.
	log string

	mu      sync.Mutex
	process *program.Process
	stopped chan struct{} // nil while the program is not wanted
	done    chan struct{} // closed when it is no longer watched
}

// start starts the program; it must not run.
func (s *supervisor) start(path string, args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return fmt.Errorf("%s is already started", path)
	}
	process, err := s.startProcess(path, args)
	if err != nil {
		return err
	}
	s.process, s.stopped, s.done = process, make(chan struct{}), make(chan struct{})
	go s.watch(process, path, args, s.stopped, s.done)
	return nil
}

func (s *supervisor) startProcess(path string, args []string) (*program.Process, error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }() // The program has its own file descriptor.
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return program.Start(cmd)
}

// watch starts the program again whenever it has ended, until it is stopped.
func (s *supervisor) watch(process *program.Process, path string, args []string, stopped, done chan struct{}) {
	defer close(done)
	for {
		select {
		case <-process.Done():
		case <-stopped:
			return
		}
		select {
		case <-time.After(restartDelay):
		case <-stopped:
			return
		}
		s.mu.Lock()
		select {
		case <-stopped:
			s.mu.Unlock()
			return
		default:
		}
		next, err := s.startProcess(path, args)
		if err == nil {
			s.process, process = next, next
		}
		s.mu.Unlock()
	}
}

// kill kills the running process.
func (s *supervisor) kill() error {
	s.mu.Lock()
	process := s.process
	s.mu.Unlock()
	if process == nil {
		return errors.New("the program was not started")
	}
	return process.Kill()
}

// stop stops the program, if it was started.
func (s *supervisor) stop() error {
	s.mu.Lock()
	process, stopped, done := s.process, s.stopped, s.done
	if stopped != nil {
		close(stopped)
		s.stopped = nil
	}
	s.mu.Unlock()
	if stopped == nil {
		return nil
	}
	err := process.Stop(stopTimeout)
	<-done
	return err
}

// readTail returns the end of a log, for an error.
func readTail(path string) string {
	const lines = 15
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
