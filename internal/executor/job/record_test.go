// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// lines is the output of a logger. Output after close is stored separately.
type lines struct {
	mu     sync.Mutex
	closed bool
	all    []string
	late   []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			l.late = append(l.late, args)
		}
		l.all = append(l.all, args)
	}, funcr.Options{})
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// with returns the number of lines that contain text.
func (l *lines) with(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// fakeLogs returns one recording per call, and then the last one repeatedly.
type fakeLogs struct {
	mu    sync.Mutex
	plays []recording
	calls []string
}

// recording is a stream: its text, and how it ends.
type recording struct {
	text string
	// open is the error of opening the stream.
	open error
	// end is the error at the end of the stream; io.EOF if nil.
	end error
	// until delays the end.
	until chan struct{}
}

func (l *fakeLogs) PodLogs(_ context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.calls)
	l.calls = append(l.calls, fmt.Sprintf("%s/%s/%s/%v", namespace, pod, container, follow))
	if len(l.plays) == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r := l.plays[min(n, len(l.plays)-1)]
	if r.open != nil {
		return nil, r.open
	}
	return &player{recording: r, rest: strings.NewReader(r.text), closed: make(chan struct{})}, nil
}

type player struct {
	recording
	rest   *strings.Reader
	closed chan struct{}
}

func (p *player) Read(b []byte) (int, error) {
	if n, err := p.rest.Read(b); err == nil {
		return n, nil
	}
	if p.until != nil {
		select {
		case <-p.until:
		case <-p.closed:
			return 0, io.ErrClosedPipe
		}
	}
	if p.end != nil {
		return 0, p.end
	}
	return 0, io.EOF
}

func (p *player) Close() error {
	close(p.closed)
	return nil
}
