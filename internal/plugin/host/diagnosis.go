// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// The reasons that only endpoints have. Like the others, they are shown in
// the conditions of Plugin objects and are stable.
const (
	// ReasonUnreachable means that there is no connection to the address.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonConnectTimeout means that there was no connection, or no response from the
	// other end, in time.
	ReasonConnectTimeout Reason = "ConnectTimeout"
	// ReasonServerNotTrusted means that the server's certificate is not accepted.
	ReasonServerNotTrusted Reason = "ServerNotTrusted"
	// ReasonCertificateRefused means that the server does not accept the operator's certificate.
	ReasonCertificateRefused Reason = "CertificateRefused"
	// ReasonInvalidCredentials means that the configured TLS credentials cannot be read or
	// used.
	ReasonInvalidCredentials Reason = "InvalidCredentials"
	// ReasonNotAGrapnelPlugin means that another program serves the address.
	ReasonNotAGrapnelPlugin Reason = "NotAGrapnelPlugin"
	// ReasonConnectBackOff means that connecting was not attempted because it failed repeatedly.
	ReasonConnectBackOff Reason = "ConnectBackOff"
)

// noAnswerFormat is the message for a connection that breaks before the plugin was verified.
const noAnswerFormat = "%s accepts connections, but the plugin does not respond: check its log"

// newStartError returns an error with a text for users; format has one %s for the address.
func (e *Endpoint) newStartError(reason Reason, err error, format string) *StartError {
	return &StartError{
		Reason: reason, Err: err, Message: strings.Replace(format, "%s", e.config.Address, 1),
	}
}

// redactLine makes text from other programs safe for a message.
func (e *Endpoint) redactLine(words string) string {
	return executor.OneLine(e.config.Redactor.String(words))
}

func (e *Endpoint) newNotAPluginError(err error) error {
	return e.newStartError(ReasonNotAGrapnelPlugin, err, "the server at %s is not a Grapnel plugin: "+
		"check the address and its port, and that the program is served with Listen of Grapnel's SDK")
}

// explainFailure returns why there is no session.
func (e *Endpoint) explainFailure(ctx context.Context, t *failureRecorder) error {
	err := t.firstError()
	switch {
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return e.explainTimeout(t.currentStage(), e.config.ConnectTimeout, errors.Join(context.Cause(ctx), err))
	case ctx.Err() != nil:
		return newInterruptedError(ctx)
	}
	if t.currentStage() == stageDialing {
		return e.explainDialError(err)
	}
	if explained := e.explainTLSError(err); explained != nil {
		return explained
	}
	return e.explainClosedConnection(t, err)
}

func (e *Endpoint) explainTimeout(at connectStage, limit time.Duration, err error) error {
	within := limit.String()
	switch at {
	case stageDialing:
		return e.newStartError(ReasonConnectTimeout, err, "%s did not answer within "+within+
			": check the address, that the plugin runs, and that no NetworkPolicy blocks the operator")
	case stageHandshake:
		return e.newStartError(ReasonConnectTimeout, err, "%s accepts connections, but was not ready for calls within "+within+
			": check that it is the port of the plugin, and why the plugin hangs")
	default:
		return e.newStartError(ReasonConnectTimeout, err, "the plugin at %s did not list within "+within+
			" what it provides: check why it hangs")
	}
}

// explainDialError explains why no server accepted the connection.
func (e *Endpoint) explainDialError(err error) error {
	var dns *net.DNSError
	socket := e.targetAddress.network == "unix"
	switch {
	case errors.Is(err, errDialTimeout):
		return e.explainTimeout(stageDialing, redialTimeLimit, err)
	case errors.As(err, &dns):
		return e.newStartError(ReasonUnreachable, err, "the host of %s has no address: check its name, and that the Service exists")
	case socket && errors.Is(err, fs.ErrNotExist):
		return e.newStartError(ReasonUnreachable, err, "there is no socket %s: check that the plugin runs, "+
			"and that its container and the operator's mount the same volume")
	case errors.Is(err, fs.ErrPermission):
		return e.newStartError(ReasonUnreachable, err, "the operator may not connect to %s: give it write permission for the socket, "+
			"for example with an fsGroup")
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.newStartError(ReasonUnreachable, err, "connection refused at %s: check that the plugin runs, and its port")
	default:
		return e.newStartError(ReasonUnreachable, err, "%s cannot be reached ("+errnoText(err)+"): check the address and the network")
	}
}

// explainTLSError explains why the operator rejects the server, or returns nil.
func (e *Endpoint) explainTLSError(err error) error {
	var certificate x509.CertificateInvalidError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return e.newStartError(ReasonServerNotTrusted, err, "the certificate of %s is not signed by a trusted authority: "+
			"add the authority to tls.caBundle, and check that it is the right server")
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return e.newStartError(ReasonServerNotTrusted, err, "the certificate of %s has expired or is not valid yet: renew it")
	case errors.As(err, &name):
		return e.newStartError(ReasonServerNotTrusted, err, "the certificate of %s is not for "+fmt.Sprintf("%q", name.Host)+
			": set tls.serverName to a name in it, or issue a certificate for this name")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return e.newStartError(ReasonServerNotTrusted, err, "the certificate of %s is not accepted ("+e.redactLine(err.Error())+")")
	case errors.As(err, &record):
		return e.newStartError(ReasonServerNotTrusted, err, "%s does not speak TLS: serve the plugin with a certificate, and check the port")
	case err != nil && (strings.Contains(err.Error(), "ALPN") || strings.Contains(err.Error(), "no application protocol")):
		return e.newNotAPluginError(err)
	}
	return nil
}

// explainClosedConnection explains why the server closed a connection.
func (e *Endpoint) explainClosedConnection(t *failureRecorder, err error) error {
	var op *net.OpError
	alert := errors.As(err, &op) && op.Op == "remote error"
	switch {
	case alert && t.hasCertificate:
		return e.newStartError(ReasonCertificateRefused, err, "%s refuses the operator's certificate ("+e.redactLine(op.Err.Error())+
			"): check that it has not expired, and that the plugin accepts its authority")
	case alert:
		return e.newStartError(ReasonCertificateRefused, err, "%s refuses the connection ("+e.redactLine(op.Err.Error())+
			"): if the plugin requires a client certificate, set tls.certificateSecret")
	case t.currentStage() == stageConnected:
		return e.newStartError(ReasonUnreachable, err, noAnswerFormat)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return e.newStartError(ReasonUnreachable, err, "%s accepts connections and closes them immediately: "+
			"check that it is the port of the plugin, and check the plugin's log")
	default:
		return e.newStartError(ReasonNotAGrapnelPlugin, err, "%s does not speak gRPC: check the address and its port")
	}
}
