// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program. Its methods may be called from several goroutines.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // How it ended; set before done is closed.
}

// Start starts cmd, which must not have been started, in a process group of its
// own: an interrupt typed at the terminal is for the caller, which then stops its
// programs in order. On Linux the program is killed when the caller ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: filepath.Base(cmd.Path), cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go p.runUntilExit(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// runUntilExit keeps the thread that starts the program until the program ends: the kernel
// takes the end of that thread for the end of the parent.
func (p *Process) runUntilExit(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID returns the process ID. It means nothing once Done is closed.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} {
	return p.done
}

// Err returns how the program ended: nil while it runs and if it succeeded, else
// an [exec.ExitError] as a rule.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill kills the program and returns once it has ended. It is no error if it has
// ended before.
func (p *Process) Kill() error {
	return p.signalAndWait(syscall.SIGKILL, nil)
}

// Stop asks the program to end, and returns once it has ended. If it has not within
// the given time it is killed, and that is an error. It is no error if it has ended
// before.
func (p *Process) Stop(within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	return p.signalAndWait(syscall.SIGTERM, timer.C)
}

// signalAndWait sends a signal and waits for the end of the program, or, if that comes first,
// for late.
func (p *Process) signalAndWait(signal os.Signal, late <-chan time.Time) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", signal, p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-late:
		return errors.Join(fmt.Errorf("%s did not end in time after %v and was killed", p.name, signal), p.Kill())
	}
}
