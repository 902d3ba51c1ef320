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

// logs hands the log lines of one stream to the calls they belong to.
type logs struct {
	// id begins the ids of the calls. It is a random text, and another one for every stream: a
	// server may notice late that one ended, and refuses a second one of the same id until then.
	id       string
	lastCall atomic.Uint64
	operator logr.Logger
	redactor *redact.Redactor
	// stopped is closed when no further lines come, and stop closes it.
	stopped chan struct{}
	// refused says that there is no such stream. It is set before stopped is closed.
	refused bool
	// brought says that lines came.
	brought atomic.Bool
	// told is done when the operator's log says that lines are missing: once for a session.
	told *sync.Once

	mu    sync.Mutex
	sinks map[string]*sink
}

func newLogs(operator logr.Logger, redactor *redact.Redactor) *logs {
	return &logs{
		id: rand.Text(), operator: operator, redactor: redactor, stopped: make(chan struct{}), told: new(sync.Once),
		sinks: map[string]*sink{},
	}
}

// next returns what takes the lines of another stream of the same session.
func (l *logs) next() *logs {
	next := newLogs(l.operator, l.redactor)
	next.told = l.told
	return next
}

func (l *logs) newCallID() string {
	return fmt.Sprintf("%s.%d", l.id, l.lastCall.Add(1))
}

// follow asks for the lines and returns when none can be missed any more.
func (l *logs) follow(ctx context.Context, conn grpc.ClientConnInterface) (grpc.ServerStreamingClient[pluginpb.FollowResponse], error) {
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

// read reads lines until there are no more.
func (l *logs) read(stream grpc.ServerStreamingClient[pluginpb.FollowResponse]) {
	defer l.stop()
	for {
		received, err := stream.Recv()
		if err != nil {
			l.broke(err)
			return
		}
		l.brought.Store(true)
		for _, line := range received.GetLines() {
			l.handle(line)
		}
	}
}

// broke says why no further lines come, unless it may be that the connection or the server ends.
func (l *logs) broke(err error) {
	if code := status.Code(err); errors.Is(err, io.EOF) || code == codes.Canceled || code == codes.Unavailable {
		return
	}
	l.tell(status.Convert(err).Message())
}

// tell says once in a session that lines are missing.
func (l *logs) tell(reason string) {
	l.told.Do(func() {
		l.operator.Info("The log of the plugin broke off; look for the lines that are missing where it runs",
			"reason", logline.Clean(l.redactor.String(reason)))
	})
}

func (l *logs) stop() { close(l.stopped) }

// isStopped reports whether no further lines come.
func (l *logs) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// handle takes one line. Those of calls that are not known are of no use to anybody.
func (l *logs) handle(line *pluginpb.LogLine) {
	l.mu.Lock()
	s := l.sinks[line.GetCallId()]
	if s != nil && line.GetEnd() {
		delete(l.sinks, line.GetCallId())
		close(s.ended)
	}
	l.mu.Unlock()
	if s != nil && !line.GetEnd() {
		s.write(line.GetText())
	}
}

// begin opens the log of a call. It stays open, without the log of the run, until the
// plugin says that the call has ended, or forget is called.
func (l *logs) begin(callID string, log logr.Logger) *sink {
	s := &sink{
		ended: make(chan struct{}), log: log, operator: l.operator, attached: true, parser: logline.NewParser(l.redactor),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sinks[callID] = s
	return s
}

// forget removes a call.
func (l *logs) forget(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sinks, callID)
}

// sink is the way to the log of one call.
type sink struct {
	operator logr.Logger
	// ended is closed when the plugin has logged the last line of the call.
	ended chan struct{}
	// parser is for the goroutine that reads the log.
	parser *logline.Parser

	mu  sync.Mutex
	log logr.Logger
	// attached says that somebody waits for the call.
	attached bool
	budget   logline.Budget
}

// detach guarantees that nothing is written to the log of the run any more.
func (s *sink) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
}

// write writes a line to the log of the run, or of the operator if nobody waits for the
// call any more.
func (s *sink) write(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.operator
	if s.attached {
		log = s.log
	}
	// Before it is read: a plugin that logs without end must not cost more than that.
	if !s.budget.Spend(len(line), log) {
		return
	}
	cut := len(line) > logline.MaxLine
	if r, ok := s.parser.Parse(line[:min(len(line), logline.MaxLine)], cut); ok {
		r.Write(log)
	}
}
