// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

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
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// The reasons that only endpoints have. As those of package process they are shown in the
// conditions of Plugin objects and are stable.
const (
	// ReasonUnreachable means that there is no connection to the address.
	ReasonUnreachable process.Reason = "Unreachable"
	// ReasonConnectTimeout means that there was no connection, or no answer of what is at
	// its other end, in time.
	ReasonConnectTimeout process.Reason = "ConnectTimeout"
	// ReasonNotTrusted means that the server's certificate is not accepted.
	ReasonNotTrusted process.Reason = "ServerNotTrusted"
	// ReasonRefused means that the server does not accept the operator's certificate.
	ReasonRefused process.Reason = "CertificateRefused"
	// ReasonInvalidCredentials means that what is given for TLS cannot be read or used.
	ReasonInvalidCredentials process.Reason = "InvalidCredentials"
	// ReasonNotAPlugin means that something else is at the address.
	ReasonNotAPlugin process.Reason = "NotAGrapnelPlugin"
	// ReasonBackOff means that it was not tried to connect because that failed repeatedly.
	ReasonBackOff process.Reason = "ConnectBackOff"
)

// noAnswer is said of a connection that breaks before the plugin was asked successfully.
const noAnswer = "%s accepts connections, but there is no answer of the plugin: look at its log"

// startError returns an error with a text for people; format has one %s for the address.
func (e *Endpoint) startError(reason process.Reason, err error, format string) *process.StartError {
	return &process.StartError{
		Reason: reason, Err: err, Message: strings.Replace(format, "%s", e.config.Address, 1),
	}
}

// text makes words from elsewhere fit for a message.
func (e *Endpoint) text(words string) string {
	return executor.OneLine(e.config.Redactor.String(words))
}

func (e *Endpoint) notAPlugin(err error) error {
	return e.startError(ReasonNotAPlugin, err, "what answers at %s is no plugin of Grapnel: "+
		"check the address and its port, and that the program is served with Listen of Grapnel's SDK")
}

// explain says why there is no session.
func (e *Endpoint) explain(ctx context.Context, t *trouble) error {
	err := t.first()
	switch {
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return e.explainTimeout(t.reached(), e.config.ConnectTimeout, errors.Join(context.Cause(ctx), err))
	case ctx.Err() != nil:
		return interrupted(ctx)
	}
	if t.reached() == stageDialling {
		return e.explainDial(err)
	}
	if explained := e.explainServer(err); explained != nil {
		return explained
	}
	return e.explainEnd(t, err)
}

func (e *Endpoint) explainTimeout(at stage, limit time.Duration, err error) error {
	within := limit.String()
	switch at {
	case stageDialling:
		return e.startError(ReasonConnectTimeout, err, "%s did not answer within "+within+
			": check the address, that the plugin runs, and that no NetworkPolicy keeps the operator from it")
	case stageHandshake:
		return e.startError(ReasonConnectTimeout, err, "%s accepts connections, but was not ready for calls within "+within+
			": check that it is the port of the plugin, and why the plugin hangs")
	default:
		return e.startError(ReasonConnectTimeout, err, "the plugin at %s did not say within "+within+
			" what it provides: check why it hangs")
	}
}

// explainDial explains that nobody accepted the connection.
func (e *Endpoint) explainDial(err error) error {
	var dns *net.DNSError
	socket := e.target.network == "unix"
	switch {
	case errors.Is(err, errDialTimeout):
		return e.explainTimeout(stageDialling, redialTimeout, err)
	case errors.As(err, &dns):
		return e.startError(ReasonUnreachable, err, "the host of %s has no address: check its name, and that the Service is there")
	case socket && errors.Is(err, fs.ErrNotExist):
		return e.startError(ReasonUnreachable, err, "there is no socket %s: check that the plugin runs, "+
			"and that its container and the operator's mount the same volume")
	case errors.Is(err, fs.ErrPermission):
		return e.startError(ReasonUnreachable, err, "the operator may not connect to %s: give it the right to write to the socket, "+
			"by an fsGroup for example")
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.startError(ReasonUnreachable, err, "nobody listens at %s: check that the plugin runs, and its port")
	default:
		return e.startError(ReasonUnreachable, err, "%s cannot be reached ("+errnoText(err)+"): check the address and the network")
	}
}

// errnoText returns the system's words for err, without addresses and the like.
func errnoText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "unknown error"
}

// explainServer explains what the operator does not like of the server, or returns nil.
func (e *Endpoint) explainServer(err error) error {
	var certificate x509.CertificateInvalidError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return e.startError(ReasonNotTrusted, err, "the certificate of %s is not of an authority that is trusted: "+
			"put the authority into tls.caBundle, and check that it is the right server")
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return e.startError(ReasonNotTrusted, err, "the certificate of %s has expired, or is not valid yet: renew it")
	case errors.As(err, &name):
		return e.startError(ReasonNotTrusted, err, "the certificate of %s is not for "+fmt.Sprintf("%q", name.Host)+
			": set tls.serverName to a name in it, or have it issued for this one")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return e.startError(ReasonNotTrusted, err, "the certificate of %s is not accepted ("+e.text(err.Error())+")")
	case errors.As(err, &record):
		return e.startError(ReasonNotTrusted, err, "%s does not speak TLS: serve the plugin with a certificate, and check the port")
	case err != nil && (strings.Contains(err.Error(), "ALPN") || strings.Contains(err.Error(), "no application protocol")):
		return e.notAPlugin(err)
	}
	return nil
}

// explainEnd explains a connection that the server has ended.
func (e *Endpoint) explainEnd(t *trouble, err error) error {
	var op *net.OpError
	alert := errors.As(err, &op) && op.Op == "remote error"
	switch {
	case alert && t.hasCertificate:
		return e.startError(ReasonRefused, err, "%s refuses the operator's certificate ("+e.text(op.Err.Error())+
			"): check that it has not expired, and is of the authority that the plugin accepts")
	case alert:
		return e.startError(ReasonRefused, err, "%s refuses the connection ("+e.text(op.Err.Error())+
			"): if the plugin wants a certificate of the operator, set tls.certificateSecret")
	case t.reached() == stageConnected:
		return e.startError(ReasonUnreachable, err, noAnswer)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return e.startError(ReasonUnreachable, err, "%s accepts connections, and ends them at once: "+
			"check that it is the port of the plugin, and look at the plugin's log")
	default:
		return e.startError(ReasonNotAPlugin, err, "%s does not speak gRPC: check the address and its port")
	}
}
