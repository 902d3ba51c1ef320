// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// short is a timeout for a server that hangs.
const short = time.Second

func noCredentials(context.Context) (TLS, error) { return TLS{}, nil }

// accepting calls handle for every connection, and closes it.
func accepting(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	return faultproxy.ServeRaw(t, "tcp", "127.0.0.1:0", handle)
}

// silent accepts connections and sends nothing.
func silent(t *testing.T) (address string, accepted <-chan struct{}) {
	t.Helper()
	began := make(chan struct{}, 9)
	return accepting(t, func(conn net.Conn) {
		began <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	}), began
}

// nowhere returns an address at which no program listens.
func nowhere(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// try returns the error of a first Ensure.
func try(t *testing.T, address string, credentials func(context.Context) (TLS, error), edits ...func(*EndpointConfig)) error {
	t.Helper()
	return newClient(t, address, credentials, edits...).EnsureReady(t.Context())
}

func within(d time.Duration) func(*EndpointConfig) {
	return func(c *EndpointConfig) { c.ConnectTimeout = d }
}

// changed returns the credentials of s with a modification.
func changed(s *secured, change func(*TLS)) func(context.Context) (TLS, error) {
	return func(context.Context) (TLS, error) {
		given := *s.tls.Load()
		change(&given)
		return given, nil
	}
}

func TestEndpoint_ServerNotTrusted(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.CABundle = newAuthority(t).bundle })),
		ReasonServerNotTrusted, "not signed by a trusted authority")
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.CABundle = nil })),
		ReasonServerNotTrusted, "not signed by a trusted authority")
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.ServerName = "other.test" })),
		ReasonServerNotTrusted, `is not for "other.test"`)
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.ServerName = "" })),
		ReasonServerNotTrusted, `is not for "127.0.0.1"`)
	old := startSecured(t, expired)
	wantStart(t, try(t, old.address, old.credentials), ReasonServerNotTrusted, "has expired")
}

func TestEndpoint_CertificateRefused(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	none := changed(s, func(c *TLS) { c.Certificate, c.Key = nil, nil })
	wantStart(t, try(t, s.address, none), ReasonCertificateRefused, "set tls.certificateSecret")
	stranger := changed(s, func(c *TLS) { c.Certificate, c.Key = newAuthority(t).issue(t) })
	wantStart(t, try(t, s.address, stranger), ReasonCertificateRefused, "refuses the operator's certificate")
	old := changed(s, func(c *TLS) { c.Certificate, c.Key = s.client.issue(t, expired) })
	wantStart(t, try(t, s.address, old), ReasonCertificateRefused, "refuses the operator's certificate")
	// Unless the server accepts any client.
	options := s.files.options("127.0.0.1:0")
	options.ClientCAFile, options.Insecure = "", serve.AnyClient
	if err := try(t, start(t, s.action.server(), options).address, none); err != nil {
		t.Errorf("a server for any client: %v", err)
	}
}

func TestEndpoint_InvalidCredentials(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	broken := func(context.Context) (TLS, error) {
		return TLS{}, errors.New(`Secret "x" is missing, token=hunter2hunter2`)
	}
	err := try(t, s.address, broken)
	wantStart(t, err, ReasonInvalidCredentials, `Secret "x" is missing`)
	if contains(err.Error(), "hunter2") {
		t.Errorf("a secret is in %q", err)
	}
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.CABundle = []byte("nothing") })),
		ReasonInvalidCredentials, "tls.caBundle")
	wantStart(t, try(t, s.address, changed(s, func(c *TLS) { c.Key = nil })), ReasonInvalidCredentials, "belong together")
}

func TestEndpoint_Unreachable(t *testing.T) {
	wantStart(t, try(t, nowhere(t), noCredentials), ReasonUnreachable, "connection refused at 127.0.0.1:")
	path := filepath.Join(t.TempDir(), "plugin.sock")
	wantStart(t, try(t, "unix://"+path, nil), ReasonUnreachable, "there is no socket unix:///")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	wantStart(t, try(t, "unix://"+path, nil), ReasonUnreachable, "connection refused at unix:///")

	c := newClient(t, "plugin.example.test:1", noCredentials)
	c.lookupHost = func(context.Context, string) ([]string, error) { return nil, &net.DNSError{IsNotFound: true} }
	wantStart(t, c.EnsureReady(t.Context()), ReasonUnreachable, "the host of plugin.example.test:1 has no address")
	wantStart(t, c.explainDialError(fs.ErrPermission), ReasonUnreachable, "may not connect to plugin.example.test:1")
	wantStart(t, c.explainDialError(errors.New("10.0.0.1 is odd")), ReasonUnreachable, "cannot be reached (unknown error)")
}

func TestEndpoint_NotAGrapnelPlugin(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	web := accepting(t, func(conn net.Conn) { _, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	wantStart(t, try(t, web, noCredentials), ReasonServerNotTrusted, "does not speak TLS")
	rude := accepting(t, func(net.Conn) {})
	wantStart(t, try(t, rude, noCredentials), ReasonUnreachable, "closes them immediately")
	certificate, key := s.servers.issue(t)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := accepting(t, func(conn net.Conn) {
		_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}).Handshake()
	})
	wantStart(t, try(t, secure, s.credentials), ReasonNotAGrapnelPlugin, "not a Grapnel plugin")

	talks := "unix://" + faultproxy.ServeRaw(t, "unix", filepath.Join(t.TempDir(), "talks.sock"), func(conn net.Conn) {
		_, _ = conn.Write([]byte("220 mail.example.test ESMTP ready\r\n"))
		_, _ = io.Copy(io.Discard, conn)
	})
	wantStart(t, try(t, talks, nil), ReasonNotAGrapnelPlugin, "does not speak gRPC")

	g := grpc.NewServer()
	path := filepath.Join(t.TempDir(), "other.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	defer func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	wantStart(t, try(t, "unix://"+path, nil), ReasonNotAGrapnelPlugin, "is not a Grapnel plugin")
}

func TestEndpoint_ConnectTimeout(t *testing.T) {
	t.Parallel()
	address, _ := silent(t)
	wantStart(t, try(t, address, noCredentials, within(short)), ReasonConnectTimeout, "was not ready for calls within 1s")
	names := newClient(t, "plugin.example.test:1", noCredentials, within(short))
	names.lookupHost = func(ctx context.Context, _ string) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	wantStart(t, names.EnsureReady(t.Context()), ReasonConnectTimeout, "did not answer within 1s")

	s := startSecured(t)
	hangs := false
	c := s.newClient(t, func(config *EndpointConfig) {
		verify := config.Verify
		config.Verify = func(ctx context.Context, conn grpc.ClientConnInterface) (Capabilities, error) {
			if hangs {
				<-ctx.Done()
				return Capabilities{}, ctx.Err()
			}
			return verify(ctx, conn)
		}
	})
	c.must(t, "well")
	hangs = true
	c.config.ConnectTimeout = short
	wantStart(t, c.EnsureReady(t.Context()), ReasonConnectTimeout, "did not list within 1s what it provides")
	first := s.newClient(t, within(3*time.Second), func(config *EndpointConfig) {
		config.Verify = func(ctx context.Context, _ grpc.ClientConnInterface) (Capabilities, error) {
			<-ctx.Done()
			return Capabilities{}, ctx.Err()
		}
	})
	wantStart(t, first.EnsureReady(t.Context()), ReasonConnectTimeout, "did not list within 3s what it provides")
}

// TestEndpoint_SeveralAddresses checks that all addresses of a name are tried in turn.
func TestEndpoint_SeveralAddresses(t *testing.T) {
	s := startSecured(t)
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newFiles(t)
	stranger.use(t, newAuthority(t), s.client)
	other := start(t, s.action.server(), stranger.options(net.JoinHostPort("127.0.0.2", port)))
	c := newClient(t, net.JoinHostPort("plugin.example.test", port), s.credentials)
	addresses := []string{"127.0.0.3", "127.0.0.2", "127.0.0.1"}
	c.lookupHost = func(context.Context, string) ([]string, error) { return addresses, nil }
	c.must(t, "the third")
	s.stop()
	<-c.lost
	// The reported reason does not depend on the order of the addresses.
	wantStart(t, c.EnsureReady(t.Context()), ReasonUnreachable, "connection refused at plugin.example.test:")
	slices.Reverse(addresses)
	wantStart(t, c.EnsureReady(t.Context()), ReasonUnreachable, "connection refused at plugin.example.test:")
	other.stop()
	addresses = nil
	wantStart(t, c.EnsureReady(t.Context()), ReasonUnreachable, "has no address")
}

func TestNewEndpoint_InvalidConfig(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"plugin":            "neither host:port nor",
		":7443":             "neither host:port nor",
		"plugin:0":          "not a number from 1 to 65535",
		"plugin:https":      "not a number from 1 to 65535",
		"plugin:70000":      "not a number from 1 to 65535",
		"unix://plugin":     "no absolute path",
		"unix:plugin.sock":  "not a number from 1 to 65535",
		"plugin.ns.svc:443": "there is no TLS",
	} {
		_, err := NewEndpoint(EndpointConfig{Address: address})
		wantStart(t, err, ReasonInvalidSpec, want)
	}
}
