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

// Process is a running program. It is safe for concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // The exit error; set before done is closed.
}

// Start starts cmd, which must not have been started, in its own process group: an
// interrupt typed at the terminal reaches only the caller, which then stops its programs in
// order. On Linux the program is killed when the caller ends.
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
// treats the end of that thread as the end of the parent.
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

// PID returns the process ID. It is invalid once Done is closed.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} {
	return p.done
}

// Err returns the exit error of the program: nil while it runs and if it succeeded,
// otherwise usually an [exec.ExitError].
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill kills the program and returns once it has ended. It is not an error if the program
// has already ended.
func (p *Process) Kill() error {
	return p.signalAndWait(syscall.SIGKILL, nil)
}

// Stop stops the program and returns once it has ended. If it does not end within the given
// time, it is killed and Stop returns an error. It is not an error if the program has
// already ended.
func (p *Process) Stop(within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	return p.signalAndWait(syscall.SIGTERM, timer.C)
}

// signalAndWait sends a signal and waits for the end of the program or for late, whichever
// comes first.
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
