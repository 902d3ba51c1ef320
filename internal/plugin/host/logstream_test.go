// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// TestEndpoint_LogLimit checks that an endlessly logging plugin does not fill the disk, and that
// lines of unknown calls are dropped.
func TestEndpoint_LogLimit(t *testing.T) {
	t.Parallel()
	operator, run := plugintesting.NewLog(t), plugintesting.NewLog(t)
	l := newLogStream(operator.Logger(), redact.New())
	open := l.beginCallLog("s.1", run.Logger())
	line := &pluginpb.LogLine{CallId: "s.1", Text: []byte(strings.Repeat("x", 64<<10))}
	for range 2 * MaxCallBytes / len(line.GetText()) {
		l.routeLogLine(line)
	}
	l.routeLogLine(&pluginpb.LogLine{CallId: "s.2", Text: []byte("whose?")})
	l.routeLogLine(&pluginpb.LogLine{CallId: "s.2", End: true})
	lines := run.Lines()
	if n := len(lines); n != MaxCallBytes/(64<<10)+1 || !contains(lines[n-1], "Dropping further log lines") {
		t.Errorf("there are %d lines, the last is %.80s", n, lines[n-1])
	}
	if text := operator.Text(); text != "" {
		t.Errorf("the operator's log is %s", text)
	}
	select {
	case <-open.ended:
		t.Error("the call has ended")
	default:
	}
	for range 2 { // a second end is harmless
		l.routeLogLine(&pluginpb.LogLine{CallId: "s.1", End: true})
	}
	<-open.ended
}

// TestLogStream_RouteLogLine checks that a private key that one call logs is redacted line
// by line, and that interleaved lines of another call are not.
func TestLogStream_RouteLogLine(t *testing.T) {
	t.Parallel()
	first, second := plugintesting.NewLog(t), plugintesting.NewLog(t)
	l := newLogStream(plugintesting.NewLog(t).Logger(), redact.New())
	l.beginCallLog("s.1", first.Logger())
	l.beginCallLog("s.2", second.Logger())
	for _, line := range [][2]string{
		{"s.1", "-----BEGIN RSA PRIVATE KEY-----"},
		{"s.2", "[ERROR] no disk\x1b[2J"},
		{"s.1", "MIIEow"},
		{"s.2", strings.Repeat("y", 2*MaxLineBytes)},
		{"s.1", "-----END RSA PRIVATE KEY-----"},
		{"s.1", "after the key"},
	} {
		l.routeLogLine(&pluginpb.LogLine{CallId: line[0], Text: []byte(line[1])})
	}
	if text := first.Text(); strings.Contains(text, "MIIEow") || !strings.Contains(text, "after the key") {
		t.Errorf("the first call's log is %s", text)
	}
	if text := second.Text(); !strings.Contains(text, `"no disk[2J"`) || !strings.Contains(text, "the rest of the line is dropped") ||
		len(text) > 2*MaxTextBytes {
		t.Errorf("the second call's log is %.500s", text)
	}
}

// breaking is a stream of log lines that ends with an error.
type breaking struct {
	grpc.ServerStreamingClient[pluginpb.FollowResponse]
	err error
}

func (b breaking) Recv() (*pluginpb.FollowResponse, error) { return nil, b.err }

// TestEndpoint_BrokenLogStream checks that a broken log stream is logged once, and that no call
// waits for its lines.
func TestEndpoint_BrokenLogStream(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"too large":            {status.Error(codes.ResourceExhausted, "received message larger than max\n(5 vs. 4)"), "received message larger than max | (5 vs. 4)"},
		"the server ends it":   {err: io.EOF},
		"the session is over":  {err: status.Error(codes.Canceled, "context canceled")},
		"the connection broke": {err: status.Error(codes.Unavailable, "connection reset")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := plugintesting.NewLog(t)
			l := newLogStream(operator.Logger(), redact.New())
			l.readLogLines(breaking{err: tc.err})
			<-l.stopped
			if text := operator.Text(); (text == "") != (tc.want == "") || !strings.Contains(text, tc.want) {
				t.Errorf("the operator's log is %q, want %q in it", text, tc.want)
			}
		})
	}
}
