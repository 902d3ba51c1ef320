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

// transportCredentials returns the credentials for connections; refused connections are logged
// to log.
func (o ListenOptions) transportCredentials(log *slog.Logger) (credentials.TransportCredentials, error) {
	if o.CertFile == "" {
		return insecure.NewCredentials(), nil
	}
	files := &tlsFiles{cert: o.CertFile, key: o.KeyFile, clientCA: o.ClientCAFile, log: log}
	if err := files.reloadTLSConfig(); err != nil {
		return nil, err
	}
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: files.getConfigForClient})
	return loggingCredentials{TransportCredentials: creds, log: log}, nil
}

// tlsFiles builds the TLS configuration from files that may change while the server runs.
// They are read for every connection, not watched: connections are few, and a mounted
// Secret is replaced in ways that a watcher can miss.
type tlsFiles struct {
	cert, key, clientCA string
	log                 *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	// loaded are the contents that config was built from.
	loaded fileContents
	// loggedProblem is the last logged problem.
	loggedProblem string
}

// fileContents are the contents of the files.
type fileContents struct{ cert, key, clientCA string }

// getConfigForClient returns the configuration for one connection.
func (f *tlsFiles) getConfigForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	if err := f.reloadTLSConfig(); err != nil {
		text = err.Error()
		if text != f.loggedProblem {
			f.log.Warn("Continuing with the last valid certificates", "error", text)
		}
	}
	f.loggedProblem = text
	return f.config, nil
}

// reloadTLSConfig reads the files, and keeps the configuration if that fails: while the files are
// being replaced, the key may not match the certificate.
func (f *tlsFiles) reloadTLSConfig() error {
	now, err := f.readTLSFiles()
	if err != nil || f.config != nil && now == f.loaded {
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
	f.config, f.loaded = config, now
	return nil
}

func (f *tlsFiles) readTLSFiles() (fileContents, error) {
	var out fileContents
	for into, path := range map[*string]string{&out.cert: f.cert, &out.key: f.key, &out.clientCA: f.clientCA} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fileContents{}, err
		}
		*into = string(text)
	}
	return out, nil
}

// loggingCredentials logs failed handshakes: the client often learns only that its certificate
// is bad.
type loggingCredentials struct {
	credentials.TransportCredentials
	log *slog.Logger
}

// ServerHandshake performs the handshake and logs its error.
func (r loggingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := r.TransportCredentials.ServerHandshake(raw)
	// A client that sends nothing is a probe of the port.
	if err != nil && !errors.Is(err, io.EOF) {
		r.log.Warn("Refusing a connection", "remote", raw.RemoteAddr().String(), "error", err.Error())
	}
	return conn, info, err
}

// Clone returns a copy.
func (r loggingCredentials) Clone() credentials.TransportCredentials {
	return loggingCredentials{TransportCredentials: r.TransportCredentials.Clone(), log: r.log}
}
