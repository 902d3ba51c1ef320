// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/redact"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// logStream sends the log lines of one stream to the calls they belong to.
type logStream struct {
	// id is the prefix of the IDs of the calls. It is random and different for every stream: a
	// server may detect late that a stream ended, and refuses a second one with the same ID
	// until then.
	id          string
	lastCall    atomic.Uint64
	operatorLog logr.Logger
	redactor    *redact.Redactor
	// stopped is closed by closeStopped when no further lines arrive.
	stopped chan struct{}
	// unsupported is true if the server has no log stream. It is set before stopped is
	// closed.
	unsupported bool
	// receivedLines is true after lines arrived.
	receivedLines atomic.Bool
	// warnOnce guards the warning about missing lines: one per session.
	warnOnce *sync.Once

	mu       sync.Mutex
	callLogs map[string]*streamCallLog
}

func newLogStream(operator logr.Logger, redactor *redact.Redactor) *logStream {
	return &logStream{
		id: rand.Text(), operatorLog: operator, redactor: redactor, stopped: make(chan struct{}), warnOnce: new(sync.Once),
		callLogs: map[string]*streamCallLog{},
	}
}

// newNextStream returns the logStream for another stream of the same session.
func (l *logStream) newNextStream() *logStream {
	next := newLogStream(l.operatorLog, l.redactor)
	next.warnOnce = l.warnOnce
	return next
}

func (l *logStream) newCallID() string {
	return fmt.Sprintf("%s.%d", l.id, l.lastCall.Add(1))
}

// openFollowStream opens the stream and returns when no more lines can be missed.
func (l *logStream) openFollowStream(ctx context.Context, conn grpc.ClientConnInterface) (grpc.ServerStreamingClient[pluginpb.FollowResponse], error) {
	stream, err := pluginpb.NewPluginLogClient(conn).Follow(ctx, &pluginpb.FollowRequest{Session: l.id})
	if err != nil {
		return nil, err
	}
	headers, err := stream.Header()
	if err != nil || headers != nil {
		return stream, err
	}
	// The stream ended before it began; Recv returns the reason.
	_, err = stream.Recv()
	return nil, err
}

// readLogLines reads lines until the stream ends.
func (l *logStream) readLogLines(stream grpc.ServerStreamingClient[pluginpb.FollowResponse]) {
	defer l.closeStopped()
	for {
		received, err := stream.Recv()
		if err != nil {
			l.warnIfBroken(err)
			return
		}
		l.receivedLines.Store(true)
		for _, line := range received.GetLines() {
			l.routeLogLine(line)
		}
	}
}

// warnIfBroken logs why no further lines arrive, unless the connection or the server may be ending.
func (l *logStream) warnIfBroken(err error) {
	if code := status.Code(err); errors.Is(err, io.EOF) || code == codes.Canceled || code == codes.Unavailable {
		return
	}
	l.warnLinesMissing(status.Convert(err).Message())
}

// warnLinesMissing logs once per session that lines are missing.
func (l *logStream) warnLinesMissing(reason string) {
	l.warnOnce.Do(func() {
		l.operatorLog.Info("The log stream of the plugin broke; find the missing lines where it runs",
			"reason", SanitizeLine(l.redactor.String(reason)))
	})
}

func (l *logStream) closeStopped() { close(l.stopped) }

// isStopped reports whether no further lines arrive.
func (l *logStream) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// routeLogLine sends one line to its call. Lines of unknown calls are dropped.
func (l *logStream) routeLogLine(line *pluginpb.LogLine) {
	l.mu.Lock()
	s := l.callLogs[line.GetCallId()]
	if s != nil && line.GetEnd() {
		delete(l.callLogs, line.GetCallId())
		close(s.ended)
	}
	l.mu.Unlock()
	if s != nil && !line.GetEnd() {
		s.writeLogLine(line.GetText())
	}
}

// beginCallLog opens the log of a call. It stays open, without the log of the run, until the
// plugin reports the end of the call, or removeCallLog is called.
func (l *logStream) beginCallLog(callID string, log logr.Logger) *streamCallLog {
	s := &streamCallLog{
		ended: make(chan struct{}), log: log, operatorLog: l.operatorLog, attached: true, parser: NewParser(l.redactor),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callLogs[callID] = s
	return s
}

// removeCallLog removes a call.
func (l *logStream) removeCallLog(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.callLogs, callID)
}

// streamCallLog routes the log lines of one call.
type streamCallLog struct {
	operatorLog logr.Logger
	// ended is closed when the plugin has logged the last line of the call.
	ended chan struct{}
	// parser is used only by the goroutine that reads the log.
	parser *Parser

	mu  sync.Mutex
	log logr.Logger
	// attached is true while a caller waits for the call.
	attached bool
	budget   CallBudget
}

// detachRunLog guarantees that nothing more is written to the log of the run.
func (s *streamCallLog) detachRunLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
}

// writeLogLine writes a line to the log of the run, or to the operator's log if the call was
// abandoned.
func (s *streamCallLog) writeLogLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.operatorLog
	if s.attached {
		log = s.log
	}
	// Checked before parsing: an endlessly logging plugin must not cost more than that.
	if !s.budget.SpendBytes(len(line), log) {
		return
	}
	cut := len(line) > MaxLineBytes
	if r, ok := s.parser.Parse(line[:min(len(line), MaxLineBytes)], cut); ok {
		r.LogTo(log)
	}
}
