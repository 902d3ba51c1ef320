// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// fickle is a server whose streams of log lines end while the connection continues.
type fickle struct {
	pluginpb.UnimplementedPluginLogServer
	address string
	// ends are the errors that end each stream after its headers; later streams stay open.
	ends []error
	// lines are the lines of the calls, for the followed stream.
	lines chan *pluginpb.LogLine

	mu       sync.Mutex
	sessions []string
}

func startFickle(t *testing.T, ends ...error) *fickle {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.sock")
	f := &fickle{address: "unix://" + path, ends: ends, lines: make(chan *pluginpb.LogLine, 99)}
	g := grpc.NewServer(grpc.UnaryInterceptor(f.call))
	if err := newAction().server().SetLogOutput(io.Discard).Install(g); err != nil {
		t.Fatal(err)
	}
	pluginpb.RegisterPluginLogServer(g, f)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f
}

// call sends a line for each call.
func (f *fickle) call(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if call, ok := in.(*hookpb.ExecuteRequest); ok {
		f.lines <- &pluginpb.LogLine{CallId: call.GetCallId(), Text: []byte("a line of " + call.GetIdempotencyKey())}
		f.lines <- &pluginpb.LogLine{CallId: call.GetCallId(), End: true}
	}
	return handler(ctx, in)
}

// Follow serves grapnel.plugin.v1.PluginLog. Like a server that detects closed streams late,
// it refuses a second stream of a session.
func (f *fickle) Follow(in *pluginpb.FollowRequest, stream grpc.ServerStreamingServer[pluginpb.FollowResponse]) error {
	f.mu.Lock()
	n := len(f.sessions)
	again := strings.Contains(strings.Join(f.sessions, " "), in.GetSession())
	f.sessions = append(f.sessions, in.GetSession())
	f.mu.Unlock()
	if again {
		return status.Error(codes.AlreadyExists, "the session already has a follower")
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	if n < len(f.ends) {
		return f.ends[n]
	}
	for {
		select {
		case line := <-f.lines:
			if err := stream.Send(&pluginpb.FollowResponse{Lines: []*pluginpb.LogLine{line}}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (f *fickle) followed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions)
}

// TestEndpoint_FollowLogAgain checks that calls have their lines after a proxy ended the idle
// stream of lines but not the connection.
func TestEndpoint_FollowLogAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"as if the server stopped":   nil,
		"as if the connection broke": status.Error(codes.Unavailable, "idle for too long"),
		"with an error":              status.Error(codes.Internal, "idle for too long"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFickle(t, end)
			c := newClient(t, f.address, nil)
			c.must(t, "first") // its line is lost
			for _, key := range []string{"second", "third"} {
				log := plugintesting.NewLog(t)
				if out, err := c.execute(t.Context(), log, "", key); err != nil || out != key {
					t.Fatalf("the call returned %q, %v", out, err)
				}
				if text := log.Text(); !contains(text, "a line of "+key) {
					t.Errorf("the log of the %s call is %q", key, text)
				}
			}
			if n := c.calls.Load(); n != 1 || f.followed() != 2 {
				t.Errorf("there were %d connections and %d streams of lines, want 1 and 2", n, f.followed())
			}
			if n := strings.Count(c.log.Text(), "The log stream of the plugin broke"); n != 1 {
				t.Errorf("the operator's log reports the failure %d times: %s", n, c.log.Text())
			}
		})
	}
}

// TestEndpoint_FollowLogBackoff checks that such a log costs neither the calls nor the server much,
// and is followed again later.
func TestEndpoint_FollowLogBackoff(t *testing.T) {
	t.Parallel()
	f := startFickle(t, make([]error, 99)...)
	now := time.Unix(0, 0)
	c := newClient(t, f.address, nil, func(config *EndpointConfig) { config.Now = func() time.Time { return now } })
	for range 20 {
		c.must(t, "run")
	}
	if n := f.followed(); n != 3 {
		t.Errorf("the log was followed %d times, want once, one retry, and one more before the back-off", n)
	}
	now = now.Add(time.Minute)
	c.must(t, "later")
	if n := f.followed(); n != 4 {
		t.Errorf("after the back-off, the log was followed %d times, want 4", n)
	}
	if n := strings.Count(c.log.Text(), "The log stream of the plugin broke"); n != 1 {
		t.Errorf("the operator's log reports missing lines %d times: %s", n, c.log.Text())
	}
	if n := c.calls.Load(); n != 1 || len(c.lost) > 0 {
		t.Errorf("there were %d connections, and %d were lost, want 1 and none", n, len(c.lost))
	}
}
