// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
)

// Tests that need an unused port, or listen again at the same port, do not run in parallel
// with others, which could take the port.

func TestEndpoint_ServerRestart(t *testing.T) {
	s := startSecured(t)
	c := s.newClient(t)
	c.must(t, "before")
	s.stop()
	if name := <-c.lost; name != "test" {
		t.Errorf("OnLost was called with %q", name)
	}
	if c.IsRunning() {
		t.Error("IsRunning without a server")
	}
	start(t, s.action.server(), s.files.options(s.address))
	c.must(t, "after")
	if n := c.calls.Load(); n != 2 {
		t.Errorf("verified %d times, want once for each connection", n)
	}
}

// TestEndpoint_ReconnectAfterLoss checks that the replacement of a server is found, although no server was there
// at first.
func TestEndpoint_ReconnectAfterLoss(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := newRelay(t, s.address)
	c := newClient(t, way.address(), s.credentials, func(config *EndpointConfig) { config.ReconnectTimeout = time.Minute })
	c.must(t, "before")
	way.cut()
	<-c.lost
	c.returns(t, way)
}

// TestEndpoint_ReconnectBeforeLossIsDetected checks that a call whose connection has ended waits for the replacement
// of the server, even if the loss has not been detected yet.
func TestEndpoint_ReconnectBeforeLossIsDetected(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := newRelay(t, s.address)
	c := newClient(t, way.address(), s.credentials, func(config *EndpointConfig) { config.ReconnectTimeout = time.Minute })
	ended, end := context.WithCancel(t.Context())
	end()
	c.Endpoint.mu.Lock()
	c.currentSession = &endpointSession{retired: ended.Done()}
	c.Endpoint.mu.Unlock()
	c.returns(t, way)
}

// returns fails the test unless Ensure waits until the server is reachable.
func (c *client) returns(t *testing.T, way *relay) {
	t.Helper()
	refused := way.refuse(t)
	ensured := make(chan error, 1)
	go func() { ensured <- c.EnsureReady(t.Context()) }()
	for range 3 {
		select {
		case <-refused:
		case err := <-ensured:
			t.Fatalf("Ensure gave up: %v", err)
		}
	}
	way.admit()
	c.must(t, "after")
	if err := <-ensured; err != nil {
		t.Errorf("Ensure: %v", err)
	}
}

// TestEndpoint_RegistrationChanged checks that a replacement must provide the same actions as before.
func TestEndpoint_RegistrationChanged(t *testing.T) {
	s := startSecured(t)
	c := s.newClient(t)
	c.must(t, "before")
	s.stop()
	<-c.lost
	start(t, s.action.server("test.example.io/more"), s.files.options(s.address))
	_, err := c.execute(t.Context(), plugintesting.NewLog(t), "", "after")
	wantStart(t, err, "RegistrationChanged", "other actions")
	wantStart(t, c.EnsureReady(t.Context()), "RegistrationChanged", "other actions")
	if c.IsRunning() {
		t.Error("IsRunning")
	}
}

// TestEndpoint_ServerStopsDuringCall checks that the call ends normally and the next call needs a
// server.
func TestEndpoint_ServerStopsDuringCall(t *testing.T) {
	s := startSecured(t)
	c := s.newClient(t)
	log := plugintesting.NewLog(t)
	answer := make(chan error, 1)
	go func() {
		_, err := c.execute(t.Context(), log, "wait", "run")
		answer <- err
	}()
	<-s.action.begun
	s.cancel()
	<-c.lost
	_, err := c.execute(t.Context(), plugintesting.NewLog(t), "", "another")
	wantStart(t, err, ReasonUnreachable, "connection refused")
	close(s.action.release)
	if err := <-answer; err != nil || len(log.Lines()) != 2 {
		t.Errorf("the open call returned %v with the log %s", err, log.Text())
	}
	<-s.done
	if text := c.log.Text(); contains(text, "log stream of the plugin broke") {
		t.Errorf("the end of the plugin's log is reported although nothing is missing: %s", text)
	}
}

func TestEndpoint_ConnectionBreaksDuringCalls(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := newRelay(t, s.address)
	c := newClient(t, way.address(), s.credentials)
	first, second := c.wait(t.Context(), t, s.action, "one"), c.wait(t.Context(), t, s.action, "two")
	way.cut()
	for _, answer := range []<-chan error{first, second} {
		var lost *LostError
		if err := <-answer; !errors.As(err, &lost) || !contains(lost.Message, "broke during the call") {
			t.Errorf("a call returned %v, want a LostError", err)
		}
	}
	<-c.lost
	c.must(t, "after")
	if n := c.calls.Load(); n != 2 {
		t.Errorf("verified %d times, want once for each connection", n)
	}
	for range 2 {
		if err := <-s.action.ended; err == nil {
			t.Error("the context of the action did not end")
		}
	}
}

// TestEndpoint_NoUnverifiedConnection checks that gRPC does not reconnect by itself.
func TestEndpoint_NoUnverifiedConnection(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := newRelay(t, s.address)
	c := newClient(t, way.address(), s.credentials)
	call, err := c.Begin(t.Context(), Call{})
	if err != nil {
		t.Fatal(err)
	}
	way.cut()
	<-c.lost
	_, err = prebackuppb.NewPreBackupActionClient(call.Conn()).Execute(t.Context(), &hookpb.ExecuteRequest{
		Plugin: actionName, IdempotencyKey: "run", Subject: []byte(`{}`),
	})
	err = call.End(t.Context(), err)
	if lost := new(LostError); !errors.As(err, &lost) {
		t.Errorf("a call on a lost connection returned %v, want a LostError", err)
	}
}

// TestEndpoint_CertificateRotation replaces the certificates of both sides while a connection is open. The
// connection continues; the next one uses the new certificates.
func TestEndpoint_CertificateRotation(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := newRelay(t, s.address)
	c := newClient(t, way.address(), s.credentials)
	again := func() error {
		way.cut()
		<-c.lost
		return c.EnsureReady(t.Context())
	}
	c.must(t, "before")
	servers, clients := newAuthority(t), newAuthority(t)
	s.files.use(t, servers, s.client)
	c.must(t, "after the server's certificate was replaced")
	wantStart(t, again(), ReasonServerNotTrusted, "not signed by a trusted authority")
	s.trust(t, servers, s.client)
	if err := c.EnsureReady(t.Context()); err != nil {
		t.Fatalf("with the new authority: %v", err)
	}
	s.files.use(t, servers, clients)
	c.must(t, "after the authority of clients was replaced")
	wantStart(t, again(), ReasonCertificateRefused, "refuses the operator's certificate")
	s.trust(t, servers, clients)
	if err := c.EnsureReady(t.Context()); err != nil {
		t.Fatalf("with the new certificate: %v", err)
	}
	// Partly replaced credentials are not used.
	s.files.write(t, "tls.key", []byte("nothing"))
	if err := again(); err != nil {
		t.Errorf("with a broken key: %v", err)
	}
}

func TestEndpoint_Backoff(t *testing.T) {
	s := startSecured(t)
	now := time.Unix(0, 0)
	c := s.newClient(t, func(config *EndpointConfig) { config.Now = func() time.Time { return now } })
	s.stop()
	try := func() error {
		_, err := c.execute(t.Context(), plugintesting.NewLog(t), "", "run")
		return err
	}
	wantStart(t, try(), ReasonUnreachable, "connection refused")
	wantStart(t, try(), ReasonConnectBackOff, "connection refused")
	wantStart(t, c.EnsureReady(t.Context()), ReasonUnreachable, "connection refused")
	now = now.Add(time.Second)
	wantStart(t, try(), ReasonConnectBackOff, "retried later")
	now = now.Add(time.Second)
	wantStart(t, try(), ReasonUnreachable, "connection refused")
	start(t, s.action.server(), s.files.options(s.address))
	if err := c.EnsureReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil {
		t.Errorf("a call after Ensure: %v", err)
	}
}

func TestNewConnectDelays(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 1600 * time.Millisecond, 3: 2560 * time.Millisecond, 99: 2 * time.Minute,
	} {
		if got := backoff.Delay(newConnectDelays(), n); got != want {
			t.Errorf("the back-off after failure %d is %s, want %s", n, got, want)
		}
	}
}

// TestEndpoint_ConnectOutlastsCalls checks that a server that needs longer than the deadlines of
// its callers is connected to, and only once.
func TestEndpoint_ConnectOutlastsCalls(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	begun, verdict := make(chan struct{}, 9), make(chan struct{})
	c := s.newClient(t, func(config *EndpointConfig) {
		config.Verify = func(context.Context, grpc.ClientConnInterface) (Capabilities, error) {
			begun <- struct{}{}
			<-verdict
			return Capabilities{}, nil
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := c.execute(ctx, plugintesting.NewLog(t), "", "short")
		answer <- err
	}()
	<-begun
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that began it returned %v", err)
	}
	wantStart(t, c.EnsureReady(ctx), ReasonInterrupted, "interrupted")
	close(verdict)
	c.must(t, "long")
	if again := len(begun); again > 0 {
		t.Errorf("there were %d additional attempts", again)
	}
}
