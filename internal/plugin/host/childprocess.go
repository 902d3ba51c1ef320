// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin/runner"
)

const (
	// outputDrainTimeout is how long output is read after the child has ended; only a
	// grandchild that left the process group can keep the pipes open.
	outputDrainTimeout = 500 * time.Millisecond
	// exitTimeout is how long a child that closed its standard output may take to exit by
	// itself. This allows reporting its exit code instead of a kill.
	exitTimeout = time.Second
	// maxHeadBytes is how much of standard output is kept for error messages.
	maxHeadBytes = 512
)

// childProcess is one child process, in the form that go-plugin requires.
type childProcess struct {
	spawner *Spawner
	// onLine receives the lines of standard error from one goroutine.
	onLine func(line []byte, cut bool)
	// cmd is set before Start.
	cmd    *exec.Cmd
	stdout *headReader
	// log reads standard error. It is set when Start has returned without an error.
	log *logPipe
	// dead is closed when the child has ended. exited is closed when it is also reaped and
	// its standard error is read.
	dead, exited chan struct{}
	// state is valid once exited is closed.
	state *os.ProcessState

	mu sync.Mutex
	// pid is 0 before the start.
	pid    int
	reaped bool
	// killed is true if the operator killed the child, with the reason.
	killed     bool
	killReason string
}

var _ goplugin.Runner = (*childProcess)(nil)

var errKilledBeforeStart = errors.New("killed before the start")

func newChildProcess(spawner *Spawner, onLine func([]byte, bool)) *childProcess {
	return &childProcess{spawner: spawner, onLine: onLine, dead: make(chan struct{}), exited: make(chan struct{}), stdout: &headReader{end: make(chan struct{})}}
}

// Start starts the child and the goroutines that watch it, which end with it.
func (r *childProcess) Start(context.Context) error {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("creating a pipe: %w", err)
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("creating a pipe: %w", err), outRead.Close(), outWrite.Close())
	}
	if r.log, err = newLogPipe(errRead); err != nil {
		return errors.Join(err, outRead.Close(), outWrite.Close(), errRead.Close(), errWrite.Close())
	}
	// go-plugin would pass the operator's standard input to the child.
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = nil, outWrite, errWrite
	r.cmd.SysProcAttr = childAttributes()
	startErr := r.spawnUnlessKilled()
	// The child has the write ends now; the operator's copies would keep the pipes open.
	closeErr := errors.Join(outWrite.Close(), errWrite.Close())
	if startErr != nil {
		return errors.Join(startErr, closeErr, outRead.Close(), errRead.Close())
	}
	r.stdout.file = outRead
	stderrRead := make(chan struct{})
	go func() {
		defer close(stderrRead)
		readLines(r.log, r.onLine)
	}()
	go r.reapAndClose(outRead, errRead, stderrRead)
	return nil
}

// spawnUnlessKilled starts the child unless Kill came first.
func (r *childProcess) spawnUnlessKilled() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return errKilledBeforeStart
	}
	if err := r.spawner.startCommand(r.cmd); err != nil {
		return err
	}
	r.pid = r.cmd.Process.Pid
	preferForOOM(r.pid)
	return nil
}

// reapAndClose reaps the child, kills the rest of its process group and closes the pipes.
func (r *childProcess) reapAndClose(outRead, errRead *os.File, stderrRead <-chan struct{}) {
	if awaitExit(r.cmd.Process.Pid) {
		close(r.dead)
		r.mu.Lock()
		r.killProcessGroup()
		_ = r.cmd.Wait()
		r.reaped = true
		r.mu.Unlock()
	} else {
		_ = r.cmd.Wait()
		close(r.dead)
		r.mu.Lock()
		r.killProcessGroup()
		r.reaped = true
		r.mu.Unlock()
	}
	deadline := time.Now().Add(outputDrainTimeout)
	_ = outRead.SetReadDeadline(deadline)
	_ = errRead.SetReadDeadline(deadline)
	<-stderrRead
	timer := time.NewTimer(outputDrainTimeout)
	defer timer.Stop()
	select {
	case <-r.stdout.end:
	case <-timer.C:
		// go-plugin stops reading after a line that exceeds its limit.
	}
	_ = outRead.Close()
	_ = errRead.Close()
	r.state = r.cmd.ProcessState
	close(r.exited)
}

// killProcessGroup is called with mu held and not after the child was reaped. The only
// possible error is that no process is left.
func (r *childProcess) killProcessGroup() {
	_ = syscall.Kill(-r.pid, syscall.SIGKILL)
}

// Wait waits until the child has exited and is reaped.
func (r *childProcess) Wait(context.Context) error {
	<-r.exited
	if !r.state.Success() {
		return errors.New(r.state.String())
	}
	return nil
}

// Kill kills the child and its process group. It does not wait for their end.
func (r *childProcess) Kill(context.Context) error {
	r.killUnlessExiting()
	return nil
}

func (r *childProcess) killUnlessExiting() {
	if r.stdout.hasReachedEOF() {
		// The child is exiting by itself: wait for its exit status.
		timer := time.NewTimer(exitTimeout)
		defer timer.Stop()
		select {
		case <-r.exited:
		case <-timer.C:
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		r.killed = true
		if r.pid != 0 {
			r.killProcessGroup()
		}
	}
}

// killWithReason kills the child. The reason is reported instead of a signal.
func (r *childProcess) killWithReason(why string) {
	r.mu.Lock()
	r.killReason = why
	r.mu.Unlock()
	r.killUnlessExiting()
}

// exitDescription says how the child ended. It is called when exited is closed.
func (r *childProcess) exitDescription() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killReason != "" {
		return r.killReason
	}
	return describeExit(r.state)
}

// hasExitedByItself reports whether the child ended by itself, that is, without Kill.
func (r *childProcess) hasExitedByItself() bool {
	select {
	case <-r.exited:
	default:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.killed
}

// Stdout is read by go-plugin up to the handshake and drained after it.
func (r *childProcess) Stdout() io.ReadCloser { return r.stdout }

// Stderr is empty: this package reads the real standard error, with its own limits.
func (r *childProcess) Stderr() io.ReadCloser { return io.NopCloser(bytes.NewReader(nil)) }

// Name returns the file name of the binary.
func (r *childProcess) Name() string { return filepath.Base(r.cmd.Path) }

// ID returns the process ID, and "" before the start.
func (r *childProcess) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid == 0 {
		return ""
	}
	return strconv.Itoa(r.pid)
}

// Diagnose returns nothing: handshake.go explains failures.
func (r *childProcess) Diagnose(context.Context) string { return "" }

// PluginToHost accepts only unix sockets: a plugin must not redirect the operator to
// another server.
func (r *childProcess) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" || !filepath.IsAbs(addr) {
		return "", "", fmt.Errorf("the plugin listens on %q, only a unix socket is accepted", network)
	}
	return network, addr, nil
}

// HostToPlugin changes nothing: both see the same file system.
func (r *childProcess) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// headReader keeps the beginning of the data read through it and records its end.
type headReader struct {
	// file is set before the first Read.
	file *os.File

	// end is closed when the other side has closed the pipe.
	end chan struct{}

	mu   sync.Mutex
	head []byte
}

// Read reads from the pipe.
func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.file.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = append(h.head, p[:min(n, maxHeadBytes-len(h.head))]...)
	if err != nil && !h.hasReachedEOF() {
		close(h.end)
	}
	return n, err
}

// Close closes the pipe.
func (h *headReader) Close() error { return h.file.Close() }

// hasReachedEOF reports whether the other side has closed the pipe.
func (h *headReader) hasReachedEOF() bool {
	select {
	case <-h.end:
		return true
	default:
		return false
	}
}

// firstLine returns the first line read so far, and false if there is none.
func (h *headReader) firstLine() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, _, _ := strings.Cut(string(h.head), "\n")
	return strings.TrimSpace(line), len(h.head) > 0
}
