// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	bundle      []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = sign(t, template, template, nil)
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func sign(t *testing.T, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue returns a certificate for the server or a client, and its key.
func (a *authority) issue(t *testing.T, edits ...func(*x509.Certificate)) (certificate, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, edit := range edits {
		edit(template)
	}
	der, private := sign(t, template, a.certificate, a.key)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// files are the files that a server with TLS reads.
type files struct{ dir string }

func newFiles(t *testing.T) files {
	t.Helper()
	return files{dir: t.TempDir()}
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// use writes the files for a server with a certificate of one authority that accepts
// clients of another.
func (f files) use(t *testing.T, server, clients *authority, edits ...func(*x509.Certificate)) {
	t.Helper()
	certificate, key := server.issue(t, edits...)
	f.write(t, "tls.crt", certificate)
	f.write(t, "tls.key", key)
	f.write(t, "ca.crt", clients.bundle)
}

func (f files) options(address string) serve.ListenOptions {
	return serve.ListenOptions{
		Address: address, CertFile: f.path("tls.crt"), KeyFile: f.path("tls.key"), ClientCAFile: f.path("ca.crt"),
	}
}
