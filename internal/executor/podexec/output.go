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
	// MaxLogBytes is how much of the output of a command in one pod is logged.
	MaxLogBytes = 64 << 10
	// maxLineBytes is how much of one line is read. It is more than any encoding of an answer
	// within the limits of sdk/hook takes.
	maxLineBytes = 64 << 10
)

// commandOutput receives the output of one command. It keeps only the last line of either stream,
// whatever the size.
type commandOutput struct {
	mu  sync.Mutex
	log logr.Logger
	// remainingBytes is how many bytes may still be logged; droppedBytes is how many were not.
	remainingBytes, droppedBytes int64
	closed                       bool
	stdout, stderr               *outputStream
}

func newCommandOutput(log logr.Logger, redactor *redact.Redactor) *commandOutput {
	o := &commandOutput{log: log, remainingBytes: MaxLogBytes}
	o.stdout = &outputStream{output: o, name: "stdout", redacted: redactor.NewStream()}
	o.stderr = &outputStream{output: o, name: "stderr", redacted: redactor.NewStream()}
	return o
}

// close ends the last lines. Later writes are discarded: a connection may still deliver data after
// the result is no longer needed.
func (o *commandOutput) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.stdout.endLine()
	o.stderr.endLine()
	o.closed = true
	if o.droppedBytes > 0 {
		o.log.Info("The command printed more than the log keeps; the rest was dropped", "bytes", o.droppedBytes)
	}
}

// outputStream is one of the two streams.
type outputStream struct {
	output   *commandOutput
	name     string
	redacted *redact.Stream
	// current is the beginning of the line that has not ended yet; length is its total length so
	// far.
	current []byte
	length  int64
	// last is the last line that was not blank; lastComplete is false if it was too long.
	last         []byte
	lastComplete bool
}

var _ io.Writer = (*outputStream)(nil)

// Write never fails: a writer that fails would stop a command that prints too much.
func (l *outputStream) Write(p []byte) (int, error) {
	l.output.mu.Lock()
	defer l.output.mu.Unlock()
	n := len(p)
	for len(p) > 0 && !l.output.closed {
		line, rest, complete := bytes.Cut(p, []byte{'\n'})
		p = rest
		l.length += int64(len(line))
		l.current = append(l.current, line[:min(len(line), maxLineBytes-len(l.current))]...)
		if complete {
			l.endLine()
		}
	}
	return n, nil
}

// endLine completes the current line.
func (l *outputStream) endLine() {
	line, length := l.current, l.length
	l.current, l.length = l.current[:0], 0
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l.logLine(line, length)
	// Swap the two buffers: 100 MiB of lines must not be 100 MiB of garbage.
	l.current, l.last, l.lastComplete = l.last[:0], line, int64(len(line)) == length
}

// logLine logs as much of a line as the limit allows.
func (l *outputStream) logLine(line []byte, length int64) {
	o := l.output
	if o.remainingBytes <= 0 {
		o.droppedBytes += length
		return
	}
	text, ok := l.redacted.RedactLine(string(line))
	text = executor.OneLine(text)
	shown := min(int64(len(line)), executor.MaxMessageLength)
	o.remainingBytes -= shown
	o.droppedBytes += length - shown
	if ok && text != "" {
		o.log.Info(text, "stream", l.name)
	}
}

// lastLine returns the last line that was not blank, and whether it is complete. Call it after
// close.
func (l *outputStream) lastLine() (string, bool) {
	l.output.mu.Lock()
	defer l.output.mu.Unlock()
	return string(l.last), l.lastComplete
}
