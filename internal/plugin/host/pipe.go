// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// logPipe is the read end of a pipe from which one goroutine reads the log of a child. It
// detects when everything has been read. If the child does not mark the end of the log of a
// call, this is the only way to detect it: a child writes its lines before its response.
type logPipe struct {
	raw syscall.RawConn

	mu sync.Mutex
	// idle is true if the reader has handled all data and found no more.
	idle bool
	// ended is true if the child has closed its end: no more data will arrive.
	ended bool
	// emptied is closed, and replaced, when the reader finds no more.
	emptied chan struct{}
}

// newLogPipe returns a logPipe for a file that the caller closes.
func newLogPipe(file *os.File) (*logPipe, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("preparing to read a pipe: %w", err)
	}
	return &logPipe{raw: raw, emptied: make(chan struct{})}, nil
}

// Read waits for data. A caller must have handled the data of earlier calls.
func (p *logPipe) Read(buffer []byte) (int, error) {
	var n int
	var err error
	ended := p.raw.Read(func(fd uintptr) bool {
		n, err = p.readAvailable(int(fd), buffer)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case ended != nil:
		return 0, ended
	case err != nil:
		return 0, err
	case n == 0 && len(buffer) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// readAvailable reads the available data.
func (p *logPipe) readAvailable(fd int, buffer []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.idle = errors.Is(err, unix.EAGAIN)
		p.ended = err == nil && n == 0 && len(buffer) > 0
		if p.idle || p.ended {
			close(p.emptied)
			p.emptied = make(chan struct{})
		}
		return n, err
	}
}

// drainSignal returns a channel that is closed when all data written until now has been
// read and handled. It may never be closed if the reader has ended before the log.
func (p *logPipe) drainSignal() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && (!p.idle || !p.isEmpty()) {
		return p.emptied
	}
	done := make(chan struct{})
	close(done)
	return done
}

// isEmpty reports whether there is nothing to read, not even the end.
func (p *logPipe) isEmpty() bool {
	ready := 0
	err := p.raw.Control(func(fd uintptr) {
		// A file descriptor is a small number.
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // See above.
	})
	return err == nil && ready == 0
}
