// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// validity is how long a certificate is valid.
	validity = 24 * time.Hour
	// skew is how far the clocks of those who meet may differ.
	skew = time.Hour
)

// Pair is a certificate and its private key in PEM. It must be kept secret as a whole.
type Pair struct {
	Certificate, Key []byte
}

// Authority signs certificates. It may be used concurrently.
type Authority struct {
	pair        Pair
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Subject says whom a certificate is for. Kubernetes takes the common name for the name
// of a user and the organizations for the user's groups.
type Subject struct {
	CommonName    string
	Organizations []string
	// Names and Addresses are where a server with this certificate is reached.
	Names     []string
	Addresses []net.IP
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority(name string) (*Authority, error) {
	template := newTemplate(Subject{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	a := &Authority{certificate: template}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("making the key of the authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority's own certificate: %w", err)
	}
	// What it signs refers to its key by an identifier that only the parsed one has.
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("reading the authority's own certificate: %w", err)
	}
	a.pair, err = encode(der, a.key)
	return a, err
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair {
	return a.pair
}

// Issue makes a key, and a certificate that is good for servers and for clients.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of %s: %w", s.CommonName, err)
	}
	template := newTemplate(s)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", s.CommonName, err)
	}
	return encode(der, key)
}

// Write writes NAME.crt and, for its owner only, NAME.key.
func (p Pair) Write(dir, name string) error {
	path := filepath.Join(dir, name)
	if err := errors.Join(
		os.WriteFile(path+".crt", p.Certificate, 0o644),
		os.WriteFile(path+".key", p.Key, 0o600),
	); err != nil {
		return fmt.Errorf("writing the certificate of %s: %w", name, err)
	}
	return nil
}

func newTemplate(s Subject) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		DNSNames:    s.Names,
		IPAddresses: s.Addresses,
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	// Go reads other forms, too, but some who verify tokens with this key do not.
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
