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

// hub takes the log lines of all calls, writes them to the program's own log, and hands
// them to the operators that made the calls.
//
// They go over a stream of their own beside the calls, and not with the answers: a call
// that runs into its deadline has no answer, and its lines are those that are needed most.
// No action waits for an operator that does not read: what exceeds a queue is dropped, and
// that is said.
type hub struct {
	pluginpb.UnimplementedPluginLogServer
	own io.Writer
	// drained is closed when the server stops and the last call has ended.
	drained chan struct{}

	mu        sync.Mutex
	followers map[string]*follower
	open      int
	draining  bool
}

func newHub(own io.Writer) *hub {
	return &hub{own: own, drained: make(chan struct{}), followers: map[string]*follower{}}
}

// Write takes whole lines.
func (h *hub) Write(p []byte) (int, error) {
	var own []byte
	for line := range bytes.Lines(p) {
		callID, end := callOf(line)
		if !end {
			own = append(own, line...)
		}
		h.hand(callID, bytes.TrimRight(line, "\n"), end)
	}
	if len(own) > 0 {
		if _, err := h.own.Write(own); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// callOf returns the call that a line belongs to, "" if there is none, and whether it marks
// its end.
func callOf(line []byte) (callID string, end bool) {
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

// hand gives a line to who follows its call.
func (h *hub) hand(callID string, line []byte, end bool) {
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
		f.end(callID)
	default:
		f.add(callID, line)
	}
}

// Follow serves grapnel.plugin.v1.PluginLog.
func (h *hub) Follow(in *pluginpb.FollowRequest, stream grpc.ServerStreamingServer[pluginpb.FollowResponse]) error {
	f, err := h.join(in.GetSession())
	if err != nil {
		return err
	}
	defer h.leave(in.GetSession())
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for over := false; !over; {
		select {
		case <-f.wake:
		case <-h.drained:
			over = true
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		if lines := f.take(); len(lines) > 0 {
			if err := stream.Send(&pluginpb.FollowResponse{Lines: lines}); err != nil {
				return err
			}
		}
	}
	return nil
}

// join adds a follower.
func (h *hub) join(session string) (*follower, error) {
	if !regexp.MustCompile(`^[0-9a-zA-Z]{16,64}$`).MatchString(session) {
		return nil, status.Error(codes.InvalidArgument, "a session is 16 to 64 characters from [0-9a-zA-Z]")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers[session] != nil {
		return nil, status.Error(codes.AlreadyExists, "the session is followed already")
	}
	f := newFollower()
	h.followers[session] = f
	return f, nil
}

func (h *hub) leave(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, session)
}

// drain lets the streams of all followers end after the last call.
func (h *hub) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
	h.count(0)
}

// count is called with mu held.
func (h *hub) count(change int) {
	h.open += change
	if !h.draining || h.open > 0 {
		return
	}
	select {
	case <-h.drained:
		// A call was accepted at the last moment. Its lines are in the program's own log.
	default:
		close(h.drained)
	}
}

// begin counts a call until the function it returns is called.
func (h *hub) begin() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count(1)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.count(-1)
	}
}

// unary counts a call.
func (h *hub) unary(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	defer h.begin()()
	return handler(ctx, in)
}

// stream counts a call, if it is not one that ends with the last of the others.
func (h *hub) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod != pluginpb.PluginLog_Follow_FullMethodName {
		defer h.begin()()
	}
	return handler(srv, stream)
}
