// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// TestEndpoint_Begin makes calls over TLS and a socket.
func TestEndpoint_Begin(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T) *client{
		"TLS": func(t *testing.T) *client {
			t.Helper()
			return startSecured(t).newClient(t)
		},
		"socket": func(t *testing.T) *client {
			t.Helper()
			path := "unix://" + filepath.Join(t.TempDir(), "plugin.sock")
			return newClient(t, start(t, newAction().server(), serve.ListenOptions{Address: path}).address, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t)
			if c.IsRunning() {
				t.Error("IsRunning before the first call")
			}
			log := plugintesting.NewLog(t)
			out, err := c.execute(t.Context(), log, "", "run-1")
			if err != nil || out != "run-1" {
				t.Fatalf("the call returned %q, %v", out, err)
			}
			// All lines have been written when the call returns; none is written later or
			// elsewhere.
			if lines := log.Lines(); len(lines) != 2 || !contains(lines[0], `"begun" "run"="run-1"`) ||
				!contains(lines[1], `"done" "severity"="warning"`) {
				t.Errorf("the log of the run is %q", lines)
			}
			if !c.IsRunning() {
				t.Error("not IsRunning after a call")
			}
			log = plugintesting.NewLog(t)
			if _, err := c.execute(t.Context(), log, "fail", "run-2"); status.Code(err) != codes.Unknown || !contains(err.Error(), "there is no disk") {
				t.Errorf("a failing call returned %v", err)
			}
			if err := c.EnsureReady(t.Context()); err != nil {
				t.Errorf("Ensure: %v", err)
			}
			if n := c.calls.Load(); n != 2 {
				t.Errorf("verified %d times, want once for the connection and once by Ensure", n)
			}
			if lines := c.log.Lines(); len(lines) > 0 {
				t.Errorf("the operator's log is %q", lines)
			}
		})
	}
}

func TestEndpoint_ConcurrentCalls(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	c := s.newClient(t)
	const n = 20
	results := make(chan error, n)
	for i := range n {
		go func() {
			key, log := fmt.Sprintf("run-%d", i), plugintesting.NewLog(t)
			out, err := c.execute(t.Context(), log, "wait", key)
			if text := log.Text(); err == nil && (out != key || len(log.Lines()) != 2 || !contains(text, `"run"="`+key+`"`)) {
				err = fmt.Errorf("%s has the output %q and the log %s", key, out, text)
			}
			results <- err
		}()
	}
	// All calls are open at the same time.
	for range n {
		<-s.action.begun
	}
	close(s.action.release)
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if calls := c.calls.Load(); calls != 1 {
		t.Errorf("there were %d connections, want 1", calls)
	}
}

// TestEndpoint_EndAbandonedCall checks an abandoned call: the caller gets the reason immediately, and
// the context of the action ends. The lines before that are in the log of the run. The last line
// arrives on another stream than the end of the call: it is in the log of the run if it arrives
// before End returns, and otherwise in the operator's log.
func TestEndpoint_EndAbandonedCall(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	for name, want := range map[string]error{"deadline": context.DeadlineExceeded, "cancel": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			c := s.newClient(t)
			c.must(t, "warm")
			ctx, cancel := context.WithCancel(t.Context())
			if errors.Is(want, context.DeadlineExceeded) {
				ctx, cancel = context.WithTimeout(t.Context(), 2*deadlineSlack)
			}
			defer cancel()
			log := plugintesting.NewLog(t)
			answer := make(chan error, 1)
			go func() {
				_, err := c.execute(ctx, log, "wait", name)
				answer <- err
			}()
			<-s.action.begun
			plugintesting.Eventually(t, "the line arrived", func() bool { return contains(log.Text(), "begun") })
			if !errors.Is(want, context.DeadlineExceeded) {
				cancel()
			}
			if err := <-answer; !errors.Is(err, want) {
				t.Errorf("the call returned %v, want %v", err, want)
			}
			if err := <-s.action.ended; err == nil {
				t.Error("the context of the action did not end")
			}
			plugintesting.Eventually(t, "the last line of the call arrived", func() bool {
				return contains(log.Text()+c.log.Text(), "Returning after the context of the action ended")
			})
			c.must(t, "after")
			if n := c.calls.Load(); n != 1 {
				t.Errorf("there were %d connections, want 1", n)
			}
		})
	}
}

// TestEndpoint_RejectedCalls checks that a call that does not reach the action does not wait for log
// lines.
func TestEndpoint_RejectedCalls(t *testing.T) {
	t.Parallel()
	c := startSecured(t).newClient(t)
	for name, tc := range map[string]struct {
		request *hookpb.ExecuteRequest
		want    codes.Code
	}{
		"too large":      {request: &hookpb.ExecuteRequest{Plugin: actionName, Subject: make([]byte, 9<<20)}, want: codes.ResourceExhausted},
		"unknown action": {request: &hookpb.ExecuteRequest{Plugin: "nothing"}, want: codes.Unimplemented},
	} {
		call, err := c.Begin(t.Context(), Call{})
		if err != nil {
			t.Fatal(err)
		}
		tc.request.CallId = call.ID()
		_, err = prebackuppb.NewPreBackupActionClient(call.Conn()).Execute(t.Context(), tc.request)
		if err = call.End(t.Context(), err); status.Code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	mine := errors.New("mine")
	call, err := c.Begin(t.Context(), Call{})
	if err != nil {
		t.Fatal(err)
	}
	if err := call.End(t.Context(), mine); !errors.Is(err, mine) {
		t.Errorf("a call that was not made returned %v", err)
	}
}

// TestEndpoint_ServerWithoutLog checks that a server that was not built with the SDK need not stream
// its log.
func TestEndpoint_ServerWithoutLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plugin.sock")
	g := grpc.NewServer()
	if err := newAction().server().SetLogOutput(io.Discard).Install(g); err != nil {
		t.Fatal(err)
	}
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
	c := newClient(t, "unix://"+path, nil)
	c.must(t, "run")
	if !contains(c.log.Text(), "does not stream its log") {
		t.Errorf("the operator's log is %s", c.log.Text())
	}
}
