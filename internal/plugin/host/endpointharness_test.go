// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

const (
	actionName = "test.example.io/act"
	serverName = "plugin.test"
)

// action is the action of the plugin. A parameter of the call selects its behavior.
type action struct {
	// begun receives the key of each waiting call, ended the reason if it ended without
	// having been released.
	begun   chan string
	release chan struct{}
	ended   chan error
}

func newAction() *action {
	return &action{begun: make(chan string, 99), release: make(chan struct{}), ended: make(chan error, 99)}
}

func (a *action) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	log := sdk.Logger(ctx)
	log.Info("begun", "run", req.IdempotencyKey)
	switch req.Parameters["do"] {
	case "fail":
		return nil, errors.New("there is no disk")
	case "wait":
		a.begun <- req.IdempotencyKey
		select {
		case <-a.release:
		case <-ctx.Done():
			a.ended <- ctx.Err()
			return nil, ctx.Err()
		}
	}
	log.Warn("done")
	return hook.Done().WithOutput("run", req.IdempotencyKey), nil
}

func (a *action) server(names ...string) *serve.Server {
	s := serve.New().SetLogOutput(io.Discard)
	for _, name := range append(names, actionName) {
		s.RegisterPreBackupActionV1(name, func() (prebackupv1.PreBackupAction, error) { return a, nil })
	}
	return s
}

// running is a running server.
type running struct {
	address string
	cancel  context.CancelFunc
	done    chan struct{}
}

// stop stops the server and waits for its end.
func (r *running) stop() {
	r.cancel()
	<-r.done
}

// start serves until the test ends.
func start(t *testing.T, s *serve.Server, options serve.ListenOptions) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listening := make(chan net.Addr, 1)
	options.Listening = func(address net.Addr) { listening <- address }
	r := &running{cancel: cancel, done: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		defer close(r.done)
		if err := s.Listen(ctx, options); err != nil {
			t.Error(err)
			failed <- err
		}
	}()
	t.Cleanup(r.stop)
	select {
	case address := <-listening:
		r.address = address.String()
		if address.Network() == "unix" {
			r.address = "unix://" + r.address
		}
	case err := <-failed:
		t.Fatal(err)
	}
	return r
}

// secured is a server with TLS and what a client needs for it.
type secured struct {
	*running
	action          *action
	files           files
	servers, client *authority
	// tls is the result of Credentials.
	tls atomic.Pointer[TLS]
}

func startSecured(t *testing.T, edits ...func(*x509.Certificate)) *secured {
	t.Helper()
	s := &secured{action: newAction(), files: newFiles(t), servers: newAuthority(t), client: newAuthority(t)}
	s.files.use(t, s.servers, s.client, edits...)
	s.trust(t, s.servers, s.client)
	s.running = start(t, s.action.server(), s.files.options("127.0.0.1:0"))
	return s
}

// trust sets the authority that clients trust, and issues a new client certificate.
func (s *secured) trust(t *testing.T, servers, client *authority) {
	t.Helper()
	certificate, key := client.issue(t)
	s.tls.Store(&TLS{CABundle: servers.bundle, ServerName: serverName, Certificate: certificate, Key: key})
}

func (s *secured) credentials(context.Context) (TLS, error) { return *s.tls.Load(), nil }

// verifier is a EndpointConfig.Verify that counts.
type verifier struct {
	calls atomic.Int32
	mu    sync.Mutex
	known int
}

func (v *verifier) list(ctx context.Context, conn grpc.ClientConnInterface) (Capabilities, error) {
	v.calls.Add(1)
	listing, err := pluginpb.NewPluginListerClient(conn).ListPlugins(ctx, &pluginpb.ListPluginsRequest{})
	if err != nil {
		return Capabilities{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == 0 {
		v.known = len(listing.GetPlugins())
	}
	if v.known != len(listing.GetPlugins()) {
		return Capabilities{}, &StartError{Reason: "RegistrationChanged", Message: "the plugin provides other actions"}
	}
	return Capabilities{MarksLogEnd: slices.Contains(listing.GetCapabilities(), proto.CapabilityLogEnd)}, nil
}

// client is an Endpoint with its configuration.
type client struct {
	*Endpoint
	verifier
	log  *plugintesting.Log
	lost chan string
}

func newClient(t *testing.T, address string, credentials func(context.Context) (TLS, error), edits ...func(*EndpointConfig)) *client {
	t.Helper()
	c := &client{log: plugintesting.NewLog(t), lost: make(chan string, 99)}
	config := EndpointConfig{
		Name: "test", Address: address, Credentials: credentials, Verify: c.list, Logger: c.log.Logger(),
		ConnectTimeout: time.Minute, ReconnectTimeout: time.Nanosecond, OnLost: func(name string) { c.lost <- name },
	}
	for _, edit := range edits {
		edit(&config)
	}
	var err error
	if c.Endpoint, err = NewEndpoint(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context().Done()) })
	return c
}

// newClient returns a client of the server.
func (s *secured) newClient(t *testing.T, edits ...func(*EndpointConfig)) *client {
	t.Helper()
	return newClient(t, s.address, s.credentials, edits...)
}

// execute makes one call and returns the output of the action.
func (c *client) execute(ctx context.Context, log *plugintesting.Log, do, key string) (string, error) {
	defer log.Close()
	call, err := c.Begin(ctx, Call{Key: key, Log: log.Logger()})
	if err != nil {
		return "", err
	}
	response, err := prebackuppb.NewPreBackupActionClient(call.Conn()).Execute(ctx, &hookpb.ExecuteRequest{
		Plugin: actionName, IdempotencyKey: key, Attempt: 1, Subject: []byte(`{}`),
		Parameters: map[string]string{"do": do}, CallId: call.ID(),
	})
	return response.GetOutputs()["run"], call.End(ctx, err)
}

// must makes a call that must succeed.
func (c *client) must(t *testing.T, key string) {
	t.Helper()
	log := plugintesting.NewLog(t)
	out, err := c.execute(t.Context(), log, "", key)
	if err != nil || out != key {
		t.Fatalf("the call returned %q, %v", out, err)
	}
}

// wait begins a call that waits for the action, and returns the channel for its error.
func (c *client) wait(ctx context.Context, t *testing.T, a *action, key string) <-chan error {
	t.Helper()
	answer := make(chan error, 1)
	log := plugintesting.NewLog(t)
	go func() {
		_, err := c.execute(ctx, log, "wait", key)
		answer <- err
	}()
	if got := <-a.begun; got != key {
		t.Fatalf("the call of %q began, want %q", got, key)
	}
	return answer
}

// wantStart fails the test unless an error is a *StartError with the given reason
// and text.
func wantStart(t *testing.T, err error, reason Reason, part string) {
	t.Helper()
	var start *StartError
	if !errors.As(err, &start) {
		t.Fatalf("error is %v (%T), want a StartError", err, err)
	}
	if start.Reason != reason || !contains(start.Message, part) {
		t.Errorf("%s: %s; want %s with %q", start.Reason, start.Message, reason, part)
	}
}
