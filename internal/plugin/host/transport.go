// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transportSecurity configures how connections are made and protected.
type transportSecurity struct {
	credentials credentials.TransportCredentials
	// serverName is the name that the server's certificate must contain.
	serverName string
	// hasCertificate is true if the operator has a client certificate.
	hasCertificate bool
	// dialTimeout is how long to wait for the first packet.
	dialTimeout time.Duration
}

// loadSecurity calls EndpointConfig.Credentials, and returns a *StartError if the credentials
// are not usable. A socket is protected by its file permissions.
func (e *Endpoint) loadSecurity(ctx context.Context) (transportSecurity, error) {
	if e.targetAddress.network == "unix" {
		return transportSecurity{credentials: insecure.NewCredentials()}, nil
	}
	given, err := e.config.Credentials(ctx)
	if err != nil {
		return transportSecurity{}, e.newCredentialsError("reading the credentials for %s failed: "+e.redactLine(err.Error()), err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(given.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(given.CABundle) {
			return transportSecurity{}, e.newCredentialsError("there is no certificate in the CA bundle for %s: check tls.caBundle", nil)
		}
	}
	if len(given.Certificate)+len(given.Key) > 0 {
		pair, err := tls.X509KeyPair(given.Certificate, given.Key)
		if err != nil {
			return transportSecurity{}, e.newCredentialsError("the operator's own certificate for %s cannot be used: "+
				"check that tls.crt and tls.key of its Secret belong together", err)
		}
		// Not Certificates: these are withheld from a server that lists other authorities,
		// and the server could not report why it rejects them.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return transportSecurity{
		credentials: credentials.NewTLS(config), serverName: cmp.Or(given.ServerName, e.targetAddress.host),
		hasCertificate: config.GetClientCertificate != nil,
	}, nil
}

// connectStage is the last stage that a connection reached.
type connectStage int32

const (
	stageDialing connectStage = iota
	stageHandshake
	stageConnected
)

// failureRecorder records the failure of a connection, with the error types that gRPC converts
// to text.
type failureRecorder struct {
	hasCertificate bool
	stage          atomic.Int32

	mu sync.Mutex
	// err is the first error: those that follow are its consequences.
	err error
}

func (t *failureRecorder) recordFirstError(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *failureRecorder) firstError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *failureRecorder) setStage(s connectStage) { t.stage.Store(int32(s)) }

func (t *failureRecorder) currentStage() connectStage { return connectStage(t.stage.Load()) }

// transport makes one connection, once, and records its failure.
type transport struct {
	transportSecurity
	recorder         *failureRecorder
	network, address string
	dialed           atomic.Bool
}

var _ credentials.TransportCredentials = (*transport)(nil)

var errOneConnection = errors.New("a session has one connection")

// dialOnce connects to the address. A second call fails: the connection would be used
// without verification.
func (t *transport) dialOnce(ctx context.Context, _ string) (net.Conn, error) {
	if t.dialed.Swap(true) {
		return nil, errOneConnection
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.dialTimeout, errDialTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, t.network, t.address)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errDialTimeout) {
			err = errors.Join(cause, err)
		}
		t.recorder.recordFirstError(err)
		return nil, err
	}
	t.recorder.setStage(stageHandshake)
	return conn, nil
}

// ClientHandshake performs the handshake for the configured server name instead of gRPC's.
func (t *transport) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.credentials.ClientHandshake(ctx, t.serverName, raw)
	if err != nil {
		t.recorder.recordFirstError(err)
		return nil, nil, err
	}
	return &recordingConn{Conn: conn, recorder: t.recorder, ended: make(chan struct{})}, info, nil
}

// ServerHandshake is not used: this is the client side.
func (t *transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is the client side")
}

// Info returns the info of the credentials.
func (t *transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: t.credentials.Info().SecurityProtocol}
}

// Clone returns the same credentials: they are for one connection.
func (t *transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName is not used.
func (t *transport) OverrideServerName(string) error {
	return errors.New("the name is that of the configuration")
}

// alertTimeout is how long to wait for an alert that a server sends before it closes the
// connection.
const alertTimeout = time.Second

// recordingConn is a connection that records why it ended. With TLS 1.3, a server reports only
// there that it rejects the client certificate.
type recordingConn struct {
	net.Conn
	recorder *failureRecorder
	// ended is closed when nothing more can be read.
	ended chan struct{}
	once  sync.Once
}

// Read reads from the connection.
func (n *recordingConn) Read(p []byte) (int, error) {
	count, err := n.Conn.Read(p)
	if err != nil {
		n.recorder.recordFirstError(err)
		n.once.Do(func() { close(n.ended) })
	}
	return count, err
}

// Write writes to the connection. If writing fails, the reader is about to learn the reason,
// and must not find the connection closed before that.
func (n *recordingConn) Write(p []byte) (int, error) {
	count, err := n.Conn.Write(p)
	if err != nil {
		timer := time.NewTimer(alertTimeout)
		defer timer.Stop()
		select {
		case <-n.ended:
		case <-timer.C:
		}
		n.recorder.recordFirstError(err)
	}
	return count, err
}

// newCredentialsError is newStartError for an invalid configuration.
func (e *Endpoint) newCredentialsError(format string, err error) error {
	return e.newStartError(ReasonInvalidCredentials, err, format)
}
