// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/test/node/pki"
)

func issue(t *testing.T, s pki.Subject) (pool *x509.CertPool, pair tls.Certificate) {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority.Pair().Certificate) {
		t.Fatal("the authority's certificate is not PEM")
	}
	issued, err := authority.Issue(s)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := issued.Write(dir, "thing"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "thing.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file is %v, %v; want one for its owner only", info, err)
	}
	pair, err = tls.LoadX509KeyPair(filepath.Join(dir, "thing.crt"), filepath.Join(dir, "thing.key"))
	if err != nil {
		t.Fatal(err)
	}
	return pool, pair
}

// verify checks a certificate as a server's and as a client's.
func verify(pair tls.Certificate, pool *x509.CertPool, name string) error {
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestIssue(t *testing.T) {
	pool, pair := issue(t, pki.Subject{
		CommonName: "system:node:n", Organizations: []string{"system:nodes"},
		Names: []string{"n"}, Addresses: []net.IP{net.IPv4(10, 0, 0, 1)},
	})
	for _, name := range []string{"n", "10.0.0.1"} {
		if err := verify(pair, pool, name); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if err := verify(pair, pool, "other"); err == nil {
		t.Error("it is accepted for another name")
	}
	if s := pair.Leaf.Subject; s.CommonName != "system:node:n" || s.Organization[0] != "system:nodes" {
		t.Errorf("the subject is %v", s)
	}
}

func TestIssue_OtherAuthority(t *testing.T) {
	_, pair := issue(t, pki.Subject{CommonName: "a", Names: []string{"a"}})
	other, _ := issue(t, pki.Subject{CommonName: "b"})
	if err := verify(pair, other, "a"); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
}
