// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

type options struct {
	addr             string
	bucket           string
	accessKey        string
	secretKey        string
	ignoreConditions bool
	encryption       string
	checksum         string
	tls              bool
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	flag.StringVar(&o.bucket, "bucket", "grapnel", "bucket to create")
	flag.StringVar(&o.accessKey, "access-key", "", "access key ID to accept; empty accepts unsigned requests")
	flag.StringVar(&o.secretKey, "secret-key", "", "secret key that belongs to the access key ID")
	flag.BoolVar(&o.ignoreConditions, "ignore-conditions", false, "ignore If-None-Match on writes, as old servers do")
	flag.StringVar(&o.encryption, "require-encryption", "", "encryption that objects must have: AES256, aws:kms or aws:kms=KEY")
	flag.StringVar(&o.checksum, "require-checksum", "", "checksum that requests must have: MD5, CRC32, CRC32C, SHA1, SHA256, or None to refuse all")
	flag.BoolVar(&o.tls, "tls", false, "serve HTTPS; the second line of the output is the certificate, DER in base64")
	flag.Parse()
	if err := serveUntilEOF(context.Background(), o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

// serveUntilEOF serves until in ends.
func serveUntilEOF(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	handler, err := newServerHandler(o)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	serve, lines := server.Serve, "http://"+listener.Addr().String()
	if o.tls {
		certificate, err := newCertificate()
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		lines = "https://" + listener.Addr().String() + "\n" + base64.StdEncoding.EncodeToString(certificate.Certificate[0])
	}
	if _, err := fmt.Fprintln(out, lines); err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- serve(listener) }()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case readErr := <-ended:
		err := errors.Join(readErr, server.Close())
		if served := <-served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
}

func newServerHandler(o options) (http.Handler, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(o.bucket); err != nil {
		return nil, fmt.Errorf("creating bucket: %w", err)
	}
	// Clocks are compared when signatures are.
	handler := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(15*time.Minute)).Server()
	if o.ignoreConditions {
		handler = withoutConditions(handler)
	} else {
		handler = withConditionalCompletion(backend, handler)
	}
	handler = &checksummer{required: o.checksum, next: handler}
	if o.encryption != "" {
		handler = withRequiredEncryption(o.encryption, handler)
	}
	if o.accessKey != "" {
		handler = &verifier{accessKey: o.accessKey, secretKey: o.secretKey, next: handler}
	}
	return handler, nil
}

// newCertificate returns a certificate for the loopback interface that signs itself.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
