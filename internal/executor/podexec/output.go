// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"io"
	"sync"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

const (
	// MaxLogBytes is how much of what a command prints in one pod goes to the log.
	MaxLogBytes = 64 << 10
	// maxLine is how much of one line is looked at. It is more than an answer within
	// the limits of sdk/hook has, however it is written.
	maxLine = 64 << 10
)

// output takes what one command prints. Nothing is kept but the last line of either
// stream, however much it is.
type output struct {
	mu  sync.Mutex
	log logr.Logger
	// room is how many bytes may still be logged, lost how many were not.
	room, lost     int64
	closed         bool
	stdout, stderr *lines
}

func newOutput(log logr.Logger, redactor *redact.Redactor) *output {
	o := &output{log: log, room: MaxLogBytes}
	o.stdout = &lines{output: o, name: "stdout", redacted: redactor.NewStream()}
	o.stderr = &lines{output: o, name: "stderr", redacted: redactor.NewStream()}
	return o
}

// close ends the last lines. What is written afterwards is thrown away: a connection
// may still deliver when nobody is interested any more.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.stdout.end()
	o.stderr.end()
	o.closed = true
	if o.lost > 0 {
		o.log.Info("The command printed more than is kept in the log; the rest was thrown away", "bytes", o.lost)
	}
}

// lines is one of the two streams.
type lines struct {
	output   *output
	name     string
	redacted *redact.Stream
	// current is the beginning of the line that has not ended yet, length its whole
	// length so far.
	current []byte
	length  int64
	// last is the last line that was not blank; whole is false if it was too long.
	last  []byte
	whole bool
}

var _ io.Writer = (*lines)(nil)

// Write never fails: a writer that fails would stop a command that prints too much.
func (l *lines) Write(p []byte) (int, error) {
	l.output.mu.Lock()
	defer l.output.mu.Unlock()
	n := len(p)
	for len(p) > 0 && !l.output.closed {
		line, rest, complete := bytes.Cut(p, []byte{'\n'})
		p = rest
		l.length += int64(len(line))
		l.current = append(l.current, line[:min(len(line), maxLine-len(l.current))]...)
		if complete {
			l.end()
		}
	}
	return n, nil
}

// end takes the current line as complete.
func (l *lines) end() {
	line, length := l.current, l.length
	l.current, l.length = l.current[:0], 0
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l.show(line, length)
	// The two buffers change places: 100 MiB of lines must not be 100 MiB of garbage.
	l.current, l.last, l.whole = l.last[:0], line, int64(len(line)) == length
}

// show logs a line as far as there is room.
func (l *lines) show(line []byte, length int64) {
	o := l.output
	if o.room <= 0 {
		o.lost += length
		return
	}
	text, ok := l.redacted.Line(string(line))
	text = executor.OneLine(text)
	shown := min(int64(len(line)), executor.MaxMessageLength)
	o.room -= shown
	o.lost += length - shown
	if ok && text != "" {
		o.log.Info(text, "stream", l.name)
	}
}

// lastLine returns the last line that was not blank, and whether it is whole. It is
// for the time after close.
func (l *lines) lastLine() (string, bool) {
	l.output.mu.Lock()
	defer l.output.mu.Unlock()
	return string(l.last), l.whole
}
