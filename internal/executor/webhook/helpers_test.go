// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tag = "PreBackupAction(example.io/freeze): "

func newCall() executor.Call {
	return executor.Call{
		Point: executor.PointPreBackup, Action: "example.io/freeze", Key: "6f1c0e2a", Attempt: 2,
		Subject: []byte(`{"kind":"Backup"}`),
	}
}

// serve starts an HTTPS server that does not log failed connections.
func serve(t *testing.T, handler http.HandlerFunc, configure ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range configure {
		c(server)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// optionsFor returns options that reach a server on this machine.
func optionsFor(server *httptest.Server) webhook.Options {
	return webhook.Options{
		URL: server.URL, CABundle: pemOf("CERTIFICATE", server.Certificate().Raw),
		AllowCIDRs: []string{"127.0.0.0/8", "::1/128"}, Redactor: redact.New(),
	}
}

func newExecutor(t *testing.T, opts webhook.Options) *webhook.Executor {
	t.Helper()
	e, err := webhook.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// answering returns an Executor whose endpoint always gives the same answer.
func answering(t *testing.T, status int, header map[string]string, body string) *webhook.Executor {
	t.Helper()
	return newExecutor(t, optionsFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})))
}

// readAll reads the request. Only then does a server detect that the client has disconnected.
func readAll(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// wantError checks the kind and the text of an error. The text may be a prefix.
func wantError(t *testing.T, err error, kind executor.ErrorKind, text string) {
	t.Helper()
	if err == nil || executor.ErrorKindOf(err) != kind || !strings.HasPrefix(err.Error(), tag+text) {
		t.Errorf("error is %s %v\nwant %s %s", executor.ErrorKindOf(err), err, kind, tag+text)
	}
}

// recorded returns a ctx whose logger writes into the returned lines.
func recorded(ctx context.Context) (context.Context, *lines) {
	out := &lines{}
	return logr.NewContext(ctx, funcr.New(func(_, args string) { out.add(args) }, funcr.Options{})), out
}

type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	bundle      []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a := &authority{key: newKey(t)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.bundle = pemOf("CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a certificate for the server on this machine, and for clients, with its key in PEM.
func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) (certificate, keyPEM []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "endpoint"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"hook.test"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
	}
	if change != nil {
		change(template)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", encoded)
}

// pair returns the result of issue in the form that a server needs.
func (a *authority) pair(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, change))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// resolver returns one lookup result after the other, and then the last one repeatedly.
type resolver struct {
	mu      sync.Mutex
	answers [][]string
	asked   []string
	err     error
}

func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, host)
	if r.err != nil {
		return nil, r.err
	}
	var out []netip.Addr
	for _, text := range r.answers[0] {
		out = append(out, netip.MustParseAddr(text))
	}
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	return out, nil
}
