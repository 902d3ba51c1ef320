// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// logHub receives the log lines of all calls, writes them to the program's own log, and
// sends them to the operators that made the calls.
//
// The lines are sent over a separate stream and not with the responses: a call that exceeds
// its deadline has no response, and its lines are needed most. No action waits for an
// operator that does not read: lines that exceed the queue are dropped, and a line reports
// that.
type logHub struct {
	pluginpb.UnimplementedPluginLogServer
	output io.Writer
	// drained is closed when the server stops and the last call has ended.
	drained chan struct{}

	mu        sync.Mutex
	followers map[string]*logLineQueue
	openCalls int
	draining  bool
}

func newLogHub(own io.Writer) *logHub {
	return &logHub{output: own, drained: make(chan struct{}), followers: map[string]*logLineQueue{}}
}

// Write takes whole lines.
func (h *logHub) Write(p []byte) (int, error) {
	var own []byte
	for line := range bytes.Lines(p) {
		callID, end := callIDFromLine(line)
		if !end {
			own = append(own, line...)
		}
		h.deliverLogLine(callID, bytes.TrimRight(line, "\n"), end)
	}
	if len(own) > 0 {
		if _, err := h.output.Write(own); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// callIDFromLine returns the call that a line belongs to, "" if there is none, and whether the line
// marks the end of the call.
func callIDFromLine(line []byte) (callID string, end bool) {
	var fields struct {
		Call string `json:"@call"`
		End  string `json:"@end"`
	}
	if json.Unmarshal(line, &fields) != nil {
		return "", false
	}
	if fields.End != "" {
		return fields.End, true
	}
	return fields.Call, false
}

// deliverLogLine sends a line to the follower of its call.
func (h *logHub) deliverLogLine(callID string, line []byte, end bool) {
	session, _, ok := strings.Cut(callID, ".")
	if !ok {
		return
	}
	h.mu.Lock()
	f := h.followers[session]
	h.mu.Unlock()
	switch {
	case f == nil:
	case end:
		f.enqueueCallEnd(callID)
	default:
		f.enqueueLogLine(callID, line)
	}
}

// Follow serves grapnel.plugin.v1.PluginLog.
func (h *logHub) Follow(in *pluginpb.FollowRequest, stream grpc.ServerStreamingServer[pluginpb.FollowResponse]) error {
	f, err := h.addFollower(in.GetSession())
	if err != nil {
		return err
	}
	defer h.removeFollower(in.GetSession())
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for over := false; !over; {
		select {
		case <-f.nonEmpty:
		case <-h.drained:
			over = true
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		if lines := f.takeQueuedLines(); len(lines) > 0 {
			if err := stream.Send(&pluginpb.FollowResponse{Lines: lines}); err != nil {
				return err
			}
		}
	}
	return nil
}

// addFollower adds a follower.
func (h *logHub) addFollower(session string) (*logLineQueue, error) {
	if !regexp.MustCompile(`^[0-9a-zA-Z]{16,64}$`).MatchString(session) {
		return nil, status.Error(codes.InvalidArgument, "a session is 16 to 64 characters from [0-9a-zA-Z]")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers[session] != nil {
		return nil, status.Error(codes.AlreadyExists, "the session already has a follower")
	}
	f := newLogLineQueue()
	h.followers[session] = f
	return f, nil
}

func (h *logHub) removeFollower(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, session)
}

// startDraining ends the streams of all followers after the last call.
func (h *logHub) startDraining() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
	h.addOpenCallsLocked(0)
}

// addOpenCallsLocked is called with mu held.
func (h *logHub) addOpenCallsLocked(change int) {
	h.openCalls += change
	if !h.draining || h.openCalls > 0 {
		return
	}
	select {
	case <-h.drained:
		// A call was accepted after draining started. Its lines are only in the program's
		// own log.
	default:
		close(h.drained)
	}
}

// trackOpenCall counts a call as open until the returned function is called.
func (h *logHub) trackOpenCall() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addOpenCallsLocked(1)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.addOpenCallsLocked(-1)
	}
}

// unaryInterceptor counts a call.
func (h *logHub) unaryInterceptor(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	defer h.trackOpenCall()()
	return handler(ctx, in)
}

// streamInterceptor counts a call, except for streams that end with the last call.
func (h *logHub) streamInterceptor(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod != pluginpb.PluginLog_Follow_FullMethodName {
		defer h.trackOpenCall()()
	}
	return handler(srv, stream)
}
