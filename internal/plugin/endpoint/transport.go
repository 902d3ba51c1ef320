// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

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

// security is how connections are made and protected.
type security struct {
	credentials credentials.TransportCredentials
	// serverName is what the server's certificate has to be for.
	serverName string
	// hasCertificate says that the operator has something to prove who it is.
	hasCertificate bool
	// dialling is how long it is waited for the first packet.
	dialling time.Duration
}

// security asks Config.Credentials, and returns a *process.StartError if what it gets is of
// no use. A socket is protected by the rights of its file.
func (e *Endpoint) security(ctx context.Context) (security, error) {
	if e.target.network == "unix" {
		return security{credentials: insecure.NewCredentials()}, nil
	}
	given, err := e.config.Credentials(ctx)
	if err != nil {
		return security{}, e.badCredentials("the credentials for %s could not be read: "+e.text(err.Error()), err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(given.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(given.CABundle) {
			return security{}, e.badCredentials("there is no certificate in the CA bundle for %s: check tls.caBundle", nil)
		}
	}
	if len(given.Certificate)+len(given.Key) > 0 {
		pair, err := tls.X509KeyPair(given.Certificate, given.Key)
		if err != nil {
			return security{}, e.badCredentials("the operator's own certificate for %s cannot be used: "+
				"check that tls.crt and tls.key of its Secret belong together", err)
		}
		// Not Certificates: these are kept back from a server that lists other authorities,
		// which could not say what it has against them then.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return security{
		credentials: credentials.NewTLS(config), serverName: cmp.Or(given.ServerName, e.target.host),
		hasCertificate: config.GetClientCertificate != nil,
	}, nil
}

// stage is how far a connection came.
type stage int32

const (
	stageDialling stage = iota
	stageHandshake
	stageConnected
)

// trouble is what went wrong with a connection, with the types of errors that gRPC makes
// texts of.
type trouble struct {
	hasCertificate bool
	stage          atomic.Int32

	mu sync.Mutex
	// err is the first error: those that follow are its consequences.
	err error
}

func (t *trouble) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *trouble) first() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *trouble) reach(s stage) { t.stage.Store(int32(s)) }

func (t *trouble) reached() stage { return stage(t.stage.Load()) }

// transport makes one connection, once, and notes what goes wrong with it.
type transport struct {
	security
	trouble          *trouble
	network, address string
	dialled          atomic.Bool
}

var _ credentials.TransportCredentials = (*transport)(nil)

var errOneConnection = errors.New("a session has one connection")

// dial connects to the address. A second time it fails: the connection would be used
// without having been verified.
func (t *transport) dial(ctx context.Context, _ string) (net.Conn, error) {
	if t.dialled.Swap(true) {
		return nil, errOneConnection
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.dialling, errDialTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, t.network, t.address)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errDialTimeout) {
			err = errors.Join(cause, err)
		}
		t.trouble.note(err)
		return nil, err
	}
	t.trouble.reach(stageHandshake)
	return conn, nil
}

// ClientHandshake does what it does for the credentials, for the name of the server and not
// the one that gRPC has.
func (t *transport) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.credentials.ClientHandshake(ctx, t.serverName, raw)
	if err != nil {
		t.trouble.note(err)
		return nil, nil, err
	}
	return &noting{Conn: conn, trouble: t.trouble, ended: make(chan struct{})}, info, nil
}

// ServerHandshake is not used: this is the client side.
func (t *transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is the client side")
}

// Info returns that of the credentials.
func (t *transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: t.credentials.Info().SecurityProtocol}
}

// Clone returns the same: it is for one connection.
func (t *transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName is not used.
func (t *transport) OverrideServerName(string) error {
	return errors.New("the name is that of the configuration")
}

// alertWait is how long it is waited for what a server says before it hangs up.
const alertWait = time.Second

// noting is a connection that notes why it ended. With TLS 1.3, a server says only there
// that it does not accept the certificate of the client.
type noting struct {
	net.Conn
	trouble *trouble
	// ended is closed when nothing more can be read.
	ended chan struct{}
	once  sync.Once
}

// Read reads from the connection.
func (n *noting) Read(p []byte) (int, error) {
	count, err := n.Conn.Read(p)
	if err != nil {
		n.trouble.note(err)
		n.once.Do(func() { close(n.ended) })
	}
	return count, err
}

// Write writes to the connection. If it cannot, whoever reads is about to learn why, and must
// not find the connection closed for that.
func (n *noting) Write(p []byte) (int, error) {
	count, err := n.Conn.Write(p)
	if err != nil {
		timer := time.NewTimer(alertWait)
		defer timer.Stop()
		select {
		case <-n.ended:
		case <-timer.C:
		}
		n.trouble.note(err)
	}
	return count, err
}

// badCredentials is startError for what is wrong with the configuration.
func (e *Endpoint) badCredentials(format string, err error) error {
	return e.startError(ReasonInvalidCredentials, err, format)
}
