// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// credentials returns what protects connections; log is told of those that are refused.
func (o ListenOptions) credentials(log *slog.Logger) (credentials.TransportCredentials, error) {
	if o.CertFile == "" {
		return insecure.NewCredentials(), nil
	}
	files := &tlsFiles{cert: o.CertFile, key: o.KeyFile, clientCA: o.ClientCAFile, log: log}
	if err := files.refresh(); err != nil {
		return nil, err
	}
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: files.configFor})
	return refusals{TransportCredentials: creds, log: log}, nil
}

// tlsFiles makes the configuration for TLS of files that change while the server runs. They
// are read for every connection, not watched: connections are few, and a Secret that is
// mounted is replaced in ways that a watcher can miss.
type tlsFiles struct {
	cert, key, clientCA string
	log                 *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	// read is what config was made of.
	read contents
	// problem is what was logged last.
	problem string
}

// contents are those of the files.
type contents struct{ cert, key, clientCA string }

// configFor returns the configuration for one connection.
func (f *tlsFiles) configFor(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	if err := f.refresh(); err != nil {
		text = err.Error()
		if text != f.problem {
			f.log.Warn("Going on with the last certificates that could be used", "error", text)
		}
	}
	f.problem = text
	return f.config, nil
}

// refresh reads the files, and keeps the configuration if that fails: while they are being
// replaced, a key may not be that of the certificate.
func (f *tlsFiles) refresh() error {
	now, err := f.contents()
	if err != nil || f.config != nil && now == f.read {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(now.cert), []byte(now.key))
	if err != nil {
		return fmt.Errorf("the certificate %s with the key %s: %w", f.cert, f.key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"},
	}
	if f.clientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM([]byte(now.clientCA)) {
			return fmt.Errorf("there is no certificate in %s", f.clientCA)
		}
	}
	f.config, f.read = config, now
	return nil
}

func (f *tlsFiles) contents() (contents, error) {
	var out contents
	for into, path := range map[*string]string{&out.cert: f.cert, &out.key: f.key, &out.clientCA: f.clientCA} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return contents{}, err
		}
		*into = string(text)
	}
	return out, nil
}

// refusals logs the connections that come to nothing: the client is often told no more
// than that its certificate is bad.
type refusals struct {
	credentials.TransportCredentials
	log *slog.Logger
}

// ServerHandshake does what it does for the credentials.
func (r refusals) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := r.TransportCredentials.ServerHandshake(raw)
	// One that says nothing is a probe of the port.
	if err != nil && !errors.Is(err, io.EOF) {
		r.log.Warn("Refusing a connection", "remote", raw.RemoteAddr().String(), "error", err.Error())
	}
	return conn, info, err
}

// Clone returns a copy.
func (r refusals) Clone() credentials.TransportCredentials {
	return refusals{TransportCredentials: r.TransportCredentials.Clone(), log: r.log}
}
