// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
)

const testSession = "0123456789abcdef"

func TestListenOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options ListenOptions
		want    string
	}{
		"socket":                    {options: ListenOptions{Address: "unix:///run/x.sock"}},
		"everything":                {options: ListenOptions{Address: ":1", CertFile: "c", KeyFile: "k", ClientCAFile: "a"}},
		"any client":                {options: ListenOptions{Address: ":1", CertFile: "c", KeyFile: "k", Insecure: AnyClient}},
		"plaintext":                 {options: ListenOptions{Address: "127.0.0.1:1", Insecure: Plaintext}},
		"no address":                {want: "neither host:port nor"},
		"relative socket":           {options: ListenOptions{Address: "unix://x.sock"}, want: "no absolute path"},
		"socket with files":         {options: ListenOptions{Address: "unix:///x", CertFile: "c"}, want: "without TLS"},
		"socket, insecure":          {options: ListenOptions{Address: "unix:///x", Insecure: Plaintext}, want: "without TLS"},
		"no files":                  {options: ListenOptions{Address: "127.0.0.1:1"}, want: "set CertFile and KeyFile"},
		"no key":                    {options: ListenOptions{Address: ":1", CertFile: "c", ClientCAFile: "a"}, want: "set CertFile and KeyFile"},
		"no authority":              {options: ListenOptions{Address: ":1", CertFile: "c", KeyFile: "k"}, want: "set ClientCAFile"},
		"any client, no files":      {options: ListenOptions{Address: ":1", Insecure: AnyClient}, want: "set CertFile"},
		"any client, an authority":  {options: ListenOptions{Address: ":1", CertFile: "c", KeyFile: "k", ClientCAFile: "a", Insecure: AnyClient}, want: "not ClientCAFile"},
		"plaintext with a file":     {options: ListenOptions{Address: ":1", ClientCAFile: "a", Insecure: Plaintext}, want: "no file is used"},
		"insecure in other letters": {options: ListenOptions{Address: ":1", Insecure: "yes"}, want: "unknown Insecure"},
	} {
		_, _, err := tc.options.completeAndValidate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want %q", name, err, tc.want)
		}
	}
}

func TestListen_InvalidOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]ListenOptions{
		"neither host:port":         {},
		"no such file":              {Address: ":0", CertFile: filepath.Join(dir, "x"), KeyFile: file, Insecure: AnyClient},
		"certificate " + file:       {Address: ":0", CertFile: file, KeyFile: file, Insecure: AnyClient},
		"not a socket":              {Address: "unix://" + file},
		"no such file or directory": {Address: "unix://" + filepath.Join(dir, "x", "y.sock")},
	} {
		s := New().RegisterPreBackupActionV1("x.io/a", newPre)
		if err := s.Listen(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if err := New().Listen(t.Context(), ListenOptions{}); err == nil || !strings.Contains(err.Error(), "nothing is registered") {
		t.Errorf("a server without actions: %v", err)
	}
}

// waiting is an action that waits until it is released.
type waiting struct{ begun, release chan struct{} }

func (w waiting) Execute(ctx context.Context, _ *hook.Request) (*hook.Response, error) {
	sdk.Logger(ctx).Info("begun")
	w.begun <- struct{}{}
	<-w.release
	sdk.Logger(ctx).Info("done")
	return hook.Done(), nil
}

// listening is a running Listen.
type listening struct {
	waiting
	conn   *grpc.ClientConn
	log    *logBuffer
	cancel context.CancelFunc
	// ended receives the result of Listen.
	ended chan error
}

func listen(t *testing.T, options ListenOptions, creds credentials.TransportCredentials) *listening {
	t.Helper()
	l := &listening{log: &logBuffer{}, ended: make(chan error, 1)}
	l.waiting = waiting{begun: make(chan struct{}, 1), release: make(chan struct{})}
	s := New().SetLogOutput(l.log).RegisterPreBackupActionV1("x.io/wait", func() (prebackupv1.PreBackupAction, error) { return l.waiting, nil })
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	address := make(chan net.Addr, 1)
	options.Listening = func(at net.Addr) { address <- at }
	go func() { l.ended <- s.Listen(ctx, options) }()
	var at net.Addr
	select {
	case at = <-address:
	case err := <-l.ended:
		t.Fatal(err)
	}
	target := at.String()
	if at.Network() == "unix" {
		target = "unix://" + target
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	return l
}

func socketOptions(t *testing.T) ListenOptions {
	t.Helper()
	return ListenOptions{Address: "unix://" + filepath.Join(t.TempDir(), "x.sock")}
}

// call makes a call and returns the channel for its error.
func (l *listening) call(ctx context.Context) <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, err := prebackuppb.NewPreBackupActionClient(l.conn).Execute(ctx, &hookpb.ExecuteRequest{
			Plugin: "x.io/wait", IdempotencyKey: "k", Subject: []byte(`{}`), CallId: testSession + ".1",
		})
		answer <- err
	}()
	<-l.begun
	return answer
}

// TestListen_Stop checks that a call that is open when the server stops ends normally, with
// its log.
func TestListen_Stop(t *testing.T) {
	t.Parallel()
	l := listen(t, socketOptions(t), insecure.NewCredentials())
	health := grpc_health_v1.NewHealthClient(l.conn)
	if answer, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("the health is %v, %v", answer, err)
	}
	stream, err := pluginpb.NewPluginLogClient(l.conn).Follow(t.Context(), &pluginpb.FollowRequest{Session: testSession})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	answer := l.call(t.Context())
	l.cancel()
	close(l.release)
	if err := <-answer; err != nil {
		t.Errorf("the open call: %v", err)
	}
	var got []string
	for {
		received, err := stream.Recv()
		if err != nil {
			break
		}
		for _, line := range received.GetLines() {
			text := string(line.GetText())
			if line.GetEnd() {
				text = "end"
			}
			got = append(got, text)
		}
	}
	if len(got) != 3 || !strings.Contains(got[0], `"begun"`) || !strings.Contains(got[1], `"done"`) || got[2] != "end" {
		t.Errorf("the lines are %q", got)
	}
	if err := <-l.ended; err != nil {
		t.Errorf("Listen returned %v", err)
	}
	if lines := l.log.lines(t); len(lines) != 2 {
		t.Errorf("the program's own log is %v", lines)
	}
}

// TestListen_CutsOffCalls checks that a call that does not end in time does not block Listen.
func TestListen_CutsOffCalls(t *testing.T) {
	t.Parallel()
	options := socketOptions(t)
	options.Grace = time.Millisecond
	l := listen(t, options, insecure.NewCredentials())
	defer close(l.release)
	answer := l.call(t.Context())
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Errorf("Listen returned %v", err)
	}
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("the open call: %v, want Unavailable", err)
	}
}

func TestListen_Socket(t *testing.T) {
	t.Parallel()
	options := socketOptions(t)
	path := strings.TrimPrefix(options.Address, "unix://")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	l := listen(t, options, insecure.NewCredentials())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v; want the mode 0660", info, err)
	}
	other := New().RegisterPreBackupActionV1("x.io/a", newPre)
	if err := other.Listen(t.Context(), options); err == nil || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("a second server: %v", err)
	}
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Errorf("Listen returned %v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket was left behind: %v", err)
	}
}

// TestListen_SocketInUse checks that the socket is not removed: a failure to connect does not
// show whether a program listens.
func TestListen_SocketInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.sock")
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := removeStaleSocket(ctx, path); err == nil || !strings.Contains(err.Error(), "remove the socket if there is none") {
		t.Errorf("error is %v, want one that says what to do", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another program was removed: %v", err)
	}
}
