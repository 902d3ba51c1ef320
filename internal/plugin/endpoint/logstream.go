// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

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

	"github.com/grapnel-dev/grapnel/internal/plugin/logline"
	"github.com/grapnel-dev/grapnel/internal/redact"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// logStream hands the log lines of one stream to the calls they belong to.
type logStream struct {
	// id begins the ids of the calls. It is a random text, and another one for every stream: a
	// server may notice late that one ended, and refuses a second one of the same id until then.
	id          string
	lastCall    atomic.Uint64
	operatorLog logr.Logger
	redactor    *redact.Redactor
	// stopped is closed when no further lines come, and stop closes it.
	stopped chan struct{}
	// unsupported says that there is no such stream. It is set before stopped is closed.
	unsupported bool
	// receivedLines says that lines came.
	receivedLines atomic.Bool
	// warnOnce is done when the operator's log says that lines are missing: once for a session.
	warnOnce *sync.Once

	mu       sync.Mutex
	callLogs map[string]*callLog
}

func newLogStream(operator logr.Logger, redactor *redact.Redactor) *logStream {
	return &logStream{
		id: rand.Text(), operatorLog: operator, redactor: redactor, stopped: make(chan struct{}), warnOnce: new(sync.Once),
		callLogs: map[string]*callLog{},
	}
}

// newNextStream returns what takes the lines of another stream of the same session.
func (l *logStream) newNextStream() *logStream {
	next := newLogStream(l.operatorLog, l.redactor)
	next.warnOnce = l.warnOnce
	return next
}

func (l *logStream) newCallID() string {
	return fmt.Sprintf("%s.%d", l.id, l.lastCall.Add(1))
}

// openFollowStream asks for the lines and returns when none can be missed any more.
func (l *logStream) openFollowStream(ctx context.Context, conn grpc.ClientConnInterface) (grpc.ServerStreamingClient[pluginpb.FollowResponse], error) {
	stream, err := pluginpb.NewPluginLogClient(conn).Follow(ctx, &pluginpb.FollowRequest{Session: l.id})
	if err != nil {
		return nil, err
	}
	headers, err := stream.Header()
	if err != nil || headers != nil {
		return stream, err
	}
	// It ended without having begun, and this says why.
	_, err = stream.Recv()
	return nil, err
}

// readLogLines reads lines until there are no more.
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

// warnIfBroken says why no further lines come, unless it may be that the connection or the server ends.
func (l *logStream) warnIfBroken(err error) {
	if code := status.Code(err); errors.Is(err, io.EOF) || code == codes.Canceled || code == codes.Unavailable {
		return
	}
	l.warnLinesMissing(status.Convert(err).Message())
}

// warnLinesMissing says once in a session that lines are missing.
func (l *logStream) warnLinesMissing(reason string) {
	l.warnOnce.Do(func() {
		l.operatorLog.Info("The log of the plugin broke off; look for the lines that are missing where it runs",
			"reason", logline.SanitizeLine(l.redactor.String(reason)))
	})
}

func (l *logStream) closeStopped() { close(l.stopped) }

// isStopped reports whether no further lines come.
func (l *logStream) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// routeLogLine takes one line. Those of calls that are not known are of no use to anybody.
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
// plugin says that the call has ended, or forget is called.
func (l *logStream) beginCallLog(callID string, log logr.Logger) *callLog {
	s := &callLog{
		ended: make(chan struct{}), log: log, operatorLog: l.operatorLog, attached: true, parser: logline.NewParser(l.redactor),
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

// callLog is the way to the log of one call.
type callLog struct {
	operatorLog logr.Logger
	// ended is closed when the plugin has logged the last line of the call.
	ended chan struct{}
	// parser is for the goroutine that reads the log.
	parser *logline.Parser

	mu  sync.Mutex
	log logr.Logger
	// attached says that somebody waits for the call.
	attached bool
	budget   logline.CallBudget
}

// detachRunLog guarantees that nothing is written to the log of the run any more.
func (s *callLog) detachRunLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
}

// writeLogLine writes a line to the log of the run, or of the operator if nobody waits for the
// call any more.
func (s *callLog) writeLogLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.operatorLog
	if s.attached {
		log = s.log
	}
	// Before it is read: a plugin that logs without end must not cost more than that.
	if !s.budget.SpendBytes(len(line), log) {
		return
	}
	cut := len(line) > logline.MaxLineBytes
	if r, ok := s.parser.Parse(line[:min(len(line), logline.MaxLineBytes)], cut); ok {
		r.LogTo(log)
	}
}
