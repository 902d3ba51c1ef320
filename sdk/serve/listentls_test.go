// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// selfSigned returns a self-signed certificate and its key.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"plugin.test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestListen_ReloadsTLSFiles checks that changed files are used for the next connection, and
// that invalid files are not used and are logged once.
func TestListen_ReloadsTLSFiles(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &logBuffer{}
	s := New().SetLogOutput(log)
	files := &tlsFiles{
		cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), clientCA: filepath.Join(dir, "ca.crt"),
		log: s.log.logger(s.level),
	}
	use := func() {
		certificate, key := selfSigned(t)
		write(t, files.cert, certificate)
		write(t, files.key, key)
		write(t, files.clientCA, certificate)
	}
	config := func() *tls.Config {
		config, err := files.getConfigForClient(nil)
		if err != nil || config.ClientAuth != tls.RequireAndVerifyClientCert {
			t.Fatalf("configuration %v, %v", config, err)
		}
		return config
	}
	use()
	if err := files.reloadTLSConfig(); err != nil {
		t.Fatal(err)
	}
	first := config()
	if config() != first {
		t.Error("files that did not change were loaded again")
	}
	use()
	second := config()
	if second == first {
		t.Error("changed files were not used")
	}
	for path, content := range map[string][]byte{files.key: []byte("x"), files.clientCA: []byte("x"), files.cert: nil} {
		use()
		second = config()
		lines := len(log.lines(t))
		write(t, path, content)
		for range 2 {
			if config() != second {
				t.Errorf("a broken %s was used", path)
			}
		}
		if got := log.lines(t); len(got) != lines+1 || !strings.HasPrefix(got[lines]["@message"].(string), "Continuing with the last") {
			t.Errorf("for %s the log is %v", path, got)
		}
	}
	if err := os.Remove(files.key); err != nil {
		t.Fatal(err)
	}
	if config() != second {
		t.Error("there is no configuration without the key")
	}
	use()
	if config() == second {
		t.Error("repaired files were not used")
	}
}

// TestListen_OneFileForAll covers a self-signed certificate with its key in one file, which is
// common.
func TestListen_OneFileForAll(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	path := filepath.Join(t.TempDir(), "all.pem")
	write(t, path, append(certificate, key...))
	files := &tlsFiles{cert: path, key: path, clientCA: path}
	for range 9 {
		if err := files.reloadTLSConfig(); err != nil {
			t.Fatal(err)
		}
		files.config = nil
	}
}

// TestListen_LogsRejectedConnections checks that refusals are logged, because the client may not learn
// the reason.
func TestListen_LogsRejectedConnections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	options := ListenOptions{Address: "127.0.0.1:0"}
	for name, into := range map[string]*string{"c": &options.CertFile, "k": &options.KeyFile, "a": &options.ClientCAFile} {
		*into = filepath.Join(dir, name)
		write(t, *into, certificate)
	}
	write(t, options.KeyFile, key)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	l := listen(t, options, credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "plugin.test", MinVersion: tls.VersionTLS12}))
	health := grpc_health_v1.NewHealthClient(l.conn)
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a client without a certificate: %v", err)
	}
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	lines := l.log.lines(t)
	if len(lines) == 0 || lines[0]["@message"] != "Refusing a connection" {
		t.Errorf("the log is %v", lines)
	}
}
