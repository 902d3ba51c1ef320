// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// ErrInvalidCredentials matches errors of Options.Credentials that persist until a user changes
// something, for example because a Secret does not exist. The call is then Invalid, not
// Unreachable.
var ErrInvalidCredentials = errors.New("the credentials cannot be used")

// Credentials authenticate the operator to the endpoint. The zero value sends nothing.
type Credentials struct {
	// ClientCertificate and ClientKey are a certificate (with its chain) and its key in PEM, both
	// or neither. The certificate is sent to every endpoint that requests one.
	ClientCertificate, ClientKey []byte
	// BearerToken is sent in the Authorization header. Surrounding white space is trimmed: files
	// often end with a newline.
	BearerToken string
	// CABundle replaces Options.CABundle if it is not empty, for authorities that are rotated
	// together with the credentials.
	CABundle []byte
}

// parsedCredentials are validated Credentials.
type parsedCredentials struct {
	certificate *tls.Certificate
	token       string
	roots       *x509.CertPool
}

// credentialsError means that the credentials could not be read.
type credentialsError struct{ err error }

func (c *credentialsError) Error() string {
	return "its credentials could not be read: " + c.err.Error()
}

func (c *credentialsError) Unwrap() error { return c.err }

// loadCredentials gets and validates the credentials.
func (e *Executor) loadCredentials(ctx context.Context) (*parsedCredentials, error) {
	credentials, err := e.credentials(ctx)
	if err != nil {
		return nil, &credentialsError{err: err}
	}
	out, err := e.parseCredentials(credentials)
	if err != nil {
		return nil, &failure{kind: executor.Invalid, text: "its credentials cannot be used: " + err.Error(), err: err}
	}
	return out, nil
}

// parseCredentials validates credentials. Its errors contain no part of the credentials.
func (e *Executor) parseCredentials(credentials Credentials) (*parsedCredentials, error) {
	out := &parsedCredentials{token: strings.TrimSpace(credentials.BearerToken), roots: e.roots}
	// An endpoint may repeat the token in its answer.
	e.redactor.AddRecentValues(out.token)
	if !isVisibleASCII(out.token) {
		return nil, errors.New("the token has characters that are not visible ASCII")
	}
	var err error
	if len(credentials.CABundle) > 0 {
		if out.roots, err = parseCABundle(credentials.CABundle); err != nil {
			return nil, err
		}
	}
	certificate, key := credentials.ClientCertificate, credentials.ClientKey
	if len(certificate) == 0 && len(key) == 0 {
		return out, nil
	}
	if len(certificate) == 0 || len(key) == 0 {
		return nil, errors.New("a client certificate needs a key, and a key its certificate: give both in PEM, or none")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate and its key are not a pair in PEM: %w", err)
	}
	out.certificate = &pair
	return out, nil
}

// newTLSConfig returns the TLS configuration that verifies the endpoint and authenticates the
// operator.
func (e *Executor) newTLSConfig(secrets *parsedCredentials) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: e.serverName,
		RootCAs:    secrets.roots,
		NextProtos: []string{"http/1.1"},
		Time:       e.now,
	}
	if secrets.certificate != nil {
		// Not Certificates: of those, none is sent if the endpoint's list of authorities does not
		// match, and the endpoint reports only that a certificate is missing.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return secrets.certificate, nil
		}
	}
	return config
}
