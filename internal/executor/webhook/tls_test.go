// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
)

func TestExecute_UntrustedEndpoint(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t, "a"), newAuthority(t, "other")
	day := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02") }
	for name, tc := range map[string]struct {
		change func(*x509.Certificate)
		bundle []byte
		config func(*tls.Config)
		now    time.Duration
		want   string
	}{
		"expired": {
			change: func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(-96*time.Hour), time.Now().Add(-72*time.Hour)
			},
			want: "its certificate expired on " + day(-72*time.Hour) + ": renew it",
		},
		"not yet valid": {
			change: func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(72*time.Hour), time.Now().Add(96*time.Hour)
			},
			want: "its certificate is not valid before " + day(72*time.Hour) + ": check the clocks",
		},
		"expired authority": {
			change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(96 * time.Hour) }, now: 48 * time.Hour,
			want: "the certificate of its authority expired on " + day(time.Hour) + ": renew it",
		},
		"other authority": {bundle: other.bundle, want: "its certificate is signed by an authority that is not trusted: put the authority's certificate into"},
		"only the system": {bundle: []byte{}, want: "its certificate is signed by an authority that is not trusted"},
		"other name": {
			change: func(c *x509.Certificate) {
				c.IPAddresses, c.DNSNames = nil, []string{"a.test", "b.test", "c.test", "d.test"}
			},
			want: `its certificate is not valid for "127.0.0.1" but for a.test, b.test, c.test and 1 more: set tls.serverName in the Plugin to a name of the certificate`,
		},
		"no name": {
			change: func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, nil }, want: `its certificate is not valid for "127.0.0.1" or any other name`,
		},
		"for other purposes": {
			change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
			want:   "its certificate is not accepted (x509: certificate specifies an incompatible key usage): issue another one",
		},
		"old TLS": {
			config: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 },
			want:   "the endpoint refused the TLS connection (protocol version not supported): it must offer TLS 1.2 or newer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := false
			opts := optionsFor(serve(t, func(http.ResponseWriter, *http.Request) { called = true }, func(s *httptest.Server) {
				s.TLS.Certificates = []tls.Certificate{a.pair(t, tc.change)}
				if tc.config != nil {
					tc.config(s.TLS)
				}
			}))
			opts.CABundle = a.bundle
			if tc.bundle != nil {
				opts.CABundle = tc.bundle
			}
			if tc.now > 0 {
				opts.Now = func() time.Time { return time.Now().Add(tc.now) }
			}
			_, err := newExecutor(t, opts).Execute(t.Context(), newCall())
			wantError(t, err, executor.Unreachable, tc.want)
			if called {
				t.Error("it was called")
			}
		})
	}
}

// TestExecute_ServerName calls a name that the resolver maps to this machine: the certificate
// must be valid for the name, not for the address.
func TestExecute_ServerName(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "a")
	const others = " but for hook.test, 127.0.0.1"
	for name, tc := range map[string]struct{ host, serverName, want string }{
		"its name":                {host: "hook.test"},
		"with a dot":              {host: "hook.test."},
		"another name":            {host: "other.test", want: `its certificate is not valid for "other.test"` + others},
		"in other cases":          {host: "HOOK.test"},
		"a name beside the host":  {host: "other.test", serverName: "hook.test"},
		"an address beside it":    {host: "other.test", serverName: "127.0.0.1"},
		"not the one that is set": {host: "hook.test", serverName: "other.test", want: `its certificate is not valid for "other.test"` + others},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, host string
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				readAll(r)
				host = r.Host
				_, _ = io.WriteString(w, "{}")
			}, func(s *httptest.Server) {
				s.TLS.Certificates = []tls.Certificate{a.pair(t, nil)}
				s.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					asked = hello.ServerName
					return nil, nil
				}
			})
			opts := optionsFor(server)
			_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
			opts.URL, opts.CABundle, opts.ServerName = "https://"+tc.host+":"+port, a.bundle, tc.serverName
			opts.Resolver = &resolver{answers: [][]string{{"127.0.0.1"}}}
			_, err := newExecutor(t, opts).Execute(t.Context(), newCall())
			if tc.want != "" {
				wantError(t, err, executor.Unreachable, tc.want)
				return
			}
			if err != nil || host != tc.host+":"+port {
				t.Errorf("error is %v, the request was for %s", err, host)
			}
			if tc.serverName == "hook.test" && asked != tc.serverName {
				t.Errorf("the name in the handshake is %q", asked)
			}
		})
	}
}

// TestExecute_ClientRejected uses TLS 1.3, where an endpoint rejects the operator only after the
// handshake.
func TestExecute_ClientRejected(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t, "a"), newAuthority(t, "stranger")
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was called") }, func(s *httptest.Server) {
		s.TLS.MinVersion, s.TLS.ClientAuth, s.TLS.ClientCAs = tls.VersionTLS13, tls.RequireAndVerifyClientCert, clients
	})
	for name, tc := range map[string]struct {
		issuer *authority
		change func(*x509.Certificate)
		want   string
	}{
		"no certificate": {want: "the endpoint refused the TLS connection (certificate required): name a Secret with a client certificate in tls.certificateSecret"},
		"of a stranger":  {issuer: stranger, want: "the endpoint refused the TLS connection (unknown certificate authority): check the client certificate"},
		"expired": {
			issuer: a, change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
			want: "the endpoint refused the TLS connection (expired certificate): renew the client certificate in the Plugin's Secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := optionsFor(server)
			if tc.issuer != nil {
				certificate, key := tc.issuer.issue(t, tc.change)
				opts.Credentials = func(context.Context) (webhook.Credentials, error) {
					return webhook.Credentials{ClientCertificate: certificate, ClientKey: key}, nil
				}
			}
			_, err := newExecutor(t, opts).Execute(t.Context(), newCall())
			wantError(t, err, executor.Unreachable, tc.want)
		})
	}
}

// TestExecute_ClientCertificate goes through the life of a Secret: missing, issued by the wrong authority,
// correct, replaced.
func TestExecute_ClientCertificate(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t, "a"), newAuthority(t, "stranger")
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		_, _ = io.WriteString(w, `{"message":"hello `+r.TLS.PeerCertificates[0].Subject.CommonName+`"}`)
	}, func(s *httptest.Server) {
		// With TLS 1.3, a client receives a rejection only later, if the connection stays open.
		s.TLS.ClientAuth, s.TLS.ClientCAs, s.TLS.MaxVersion = tls.RequireAndVerifyClientCert, clients, tls.VersionTLS12
	})
	named := func(issuer *authority, name string) webhook.Credentials {
		certificate, key := issuer.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = name })
		return webhook.Credentials{ClientCertificate: certificate, ClientKey: key}
	}
	first, second := named(a, "first"), named(a, "second")
	opts := optionsFor(server)
	var now webhook.Credentials
	opts.Credentials = func(context.Context) (webhook.Credentials, error) { return now, nil }
	e := newExecutor(t, opts)
	for name, tc := range map[string]struct {
		credentials webhook.Credentials
		kind        executor.ErrorKind
		want        string
	}{
		"none":      {webhook.Credentials{}, executor.Unreachable, "the endpoint refused the TLS connection (handshake failure): check the client certificate"},
		"stranger":  {named(stranger, "x"), executor.Unreachable, "the endpoint refused the TLS connection (unknown certificate authority): check the client certificate"},
		"first":     {first, "", "hello first"},
		"second":    {second, "", "hello second"},
		"no key":    {webhook.Credentials{ClientCertificate: first.ClientCertificate}, executor.Invalid, "its credentials cannot be used: a client certificate needs a key"},
		"only key":  {webhook.Credentials{ClientKey: first.ClientKey}, executor.Invalid, "its credentials cannot be used: a client certificate needs a key"},
		"no pair":   {webhook.Credentials{ClientCertificate: first.ClientCertificate, ClientKey: second.ClientKey}, executor.Invalid, "its credentials cannot be used: the client certificate and its key are not a pair in PEM"},
		"no PEM":    {webhook.Credentials{ClientCertificate: []byte("x"), ClientKey: []byte("y")}, executor.Invalid, "its credentials cannot be used: the client certificate and its key are not a pair in PEM"},
		"no bundle": {webhook.Credentials{CABundle: []byte("x")}, executor.Invalid, "its credentials cannot be used: caBundle contains no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			now = tc.credentials
			answer, err := e.Execute(t.Context(), newCall())
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.want)
			} else if err != nil || answer.Message != tc.want {
				t.Errorf("answer is %+v, %v, want %s", answer, err, tc.want)
			}
		})
	}
}

// TestExecute_CARotation replaces the authority in the Secret, beside one in the Plugin that never
// matches.
func TestExecute_CARotation(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	opts := optionsFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		_, _ = io.WriteString(w, "{}")
	}, func(s *httptest.Server) { s.TLS.Certificates = []tls.Certificate{next.pair(t, nil)} }))
	bundle := old.bundle
	opts.CABundle = old.bundle
	opts.Credentials = func(context.Context) (webhook.Credentials, error) { return webhook.Credentials{CABundle: bundle}, nil }
	e := newExecutor(t, opts)
	_, err := e.Execute(t.Context(), newCall())
	wantError(t, err, executor.Unreachable, "its certificate is signed by an authority that is not trusted")
	bundle = slices.Concat(old.bundle, next.bundle)
	if _, err := e.Execute(t.Context(), newCall()); err != nil {
		t.Error(err)
	}
}
