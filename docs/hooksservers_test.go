// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// pair is a certificate and its key as PEM.
type pair struct{ cert, key []byte }

// newPair returns a certificate for this machine, for servers and clients, that is its own
// authority.
func newPair(t *testing.T) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// createClientSecret stores the certificate of the operator that the example names.
func (w *hookWorld) createClientSecret(t *testing.T, from pair) {
	t.Helper()
	env.Create(t, w.client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hookNamespace, Name: "grapnel-client"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: from.cert, corev1.TLSPrivateKeyKey: from.key},
	})
}

// shop is the endpoint of the Plugin maintenance.
type shop struct {
	url       string
	authority []byte

	mu    sync.Mutex
	calls []string
}

func serveShop(t *testing.T) *shop {
	t.Helper()
	own := newPair(t)
	certificate, err := tls.X509KeyPair(own.cert, own.key)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{authority: own.cert}
	server := httptest.NewUnstartedServer(s)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL + "/hooks"
	return s
}

// ServeHTTP answers the first call that it is not done, and the next one with a ticket.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Point, Key             string
		Attempt                int
		Outputs, BackupOutputs map[string]map[string]string
	}
	err := json.NewDecoder(r.Body).Decode(&call)
	if r.Header.Get("Authorization") != "Bearer replace-me" || err != nil || r.Header.Get("Idempotency-Key") != call.Key {
		http.Error(w, "that is not the operator", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	said := fmt.Sprintf("%s %s #%d", r.URL.Path, call.Point, call.Attempt)
	for _, outputs := range []map[string]map[string]string{call.Outputs, call.BackupOutputs} {
		if ticket := outputs["example.io/maintenance"]["ticket"]; ticket != "" {
			said += " of ticket " + ticket
		}
	}
	s.calls = append(s.calls, said)
	answer := `{"message": "closing", "retryAfterSeconds": 1}`
	if len(s.calls) > 1 {
		answer = `{"message": "the shop knows", "outputs": {"ticket": "4711"}}`
	}
	_, _ = w.Write([]byte(answer))
}

func (s *shop) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// report is the plugin of the same name.
type report struct {
	address     string
	certificate pair
}

// Execute is its action.
func (report) Execute(_ context.Context, req *hook.Request) (*hook.Response, error) {
	return hook.Done().WithMessage("reported " + req.Backup.Name), nil
}

func serveReport(t *testing.T) report {
	t.Helper()
	own, dir := newPair(t), t.TempDir()
	options := serve.ListenOptions{
		Address:  "127.0.0.1:0",
		CertFile: write(t, dir, "tls.crt", string(own.cert)), KeyFile: write(t, dir, "tls.key", string(own.key)),
		ClientCAFile: write(t, dir, "ca.crt", string(own.cert)),
	}
	listening, ended := make(chan string, 1), make(chan error, 1)
	options.Listening = func(at net.Addr) { listening <- at.String() }
	server := serve.New().
		RegisterPostBackupActionV1("example.io/report", func() (postbackupv1.PostBackupAction, error) { return report{}, nil })
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- server.Listen(ctx, options) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-listening:
		return report{address: address, certificate: own}
	case err := <-ended:
		ended <- err
		t.Fatal("the plugin does not listen")
	}
	return report{}
}
