// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// errBodyStalled means that an answer began and did not end.
var errBodyStalled = errors.New("the body of the answer stalled")

// failure is an error with an explanation.
type failure struct {
	kind executor.ErrorKind
	// text is for users; it is not redacted yet.
	text string
	// err is the cause.
	err error
}

func (f *failure) Error() string {
	if f.err == nil {
		return f.text
	}
	return f.text + " (" + f.err.Error() + ")"
}

// newContractError returns the failure of an endpoint that violated the contract.
func newContractError(text string, cause error) *failure {
	return &failure{kind: executor.Failed, text: text, err: cause}
}

// explainError explains an error to users. What is certain has precedence: an answer remains an
// answer if the deadline has passed since, and a connection that broke at the deadline means
// nothing.
func (e *Executor) explainError(ctx context.Context, err error) *failure {
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	if over := contextError(ctx); over != nil {
		err = errors.Join(over, err)
		if errors.Is(over, context.Canceled) {
			return &failure{kind: executor.Interrupted, text: "was interrupted before it answered", err: err}
		}
		return &failure{kind: executor.Timeout, text: "did not answer before its deadline: raise its timeout or check what it waits for", err: err}
	}
	kind, text := e.explainCause(err)
	return &failure{kind: kind, text: text, err: err}
}

// explainCause explains an error that occurred before the deadline.
func (e *Executor) explainCause(err error) (executor.ErrorKind, string) {
	if refused, ok := errors.AsType[*refusedAddressError](err); ok {
		return executor.Invalid, refused.Error()
	}
	if unread, ok := errors.AsType[*credentialsError](err); ok {
		if errors.Is(err, ErrInvalidCredentials) {
			return executor.Invalid, unread.Error()
		}
		return executor.Unreachable, unread.Error()
	}
	if outside := describeMalformedResponse(err); outside != "" {
		return executor.Failed, outside
	}
	return executor.Unreachable, cmp.Or(e.explainTLS(err), e.explainConnection(err))
}

// contextError returns why ctx ended, even if its timer is late: a connection has the same deadline
// and may report it first.
func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// describeMalformedResponse detects answers that net/http does not accept. It has no error types
// for them.
func describeMalformedResponse(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "response headers exceeded"):
		return fmt.Sprintf("answered with headers of more than %d bytes", maxHeaderBytes)
	case strings.Contains(text, "malformed"):
		return "answered something that is not HTTP/1.1: check that this port serves HTTPS"
	}
	return ""
}

// explainConnection explains a connection error. It omits the operator's ports and other values
// that differ each time.
func (e *Executor) explainConnection(err error) string {
	where := e.url.Host
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		if unknown.IsNotFound {
			return fmt.Sprintf("the host name %q does not exist: check url in the Plugin", unknown.Name)
		}
		return fmt.Sprintf("the host name %q could not be looked up: check DNS in the cluster", unknown.Name)
	}
	timedOut := false
	if netError, ok := errors.AsType[net.Error](err); ok {
		timedOut = netError.Timeout()
	}
	switch {
	case errors.Is(err, errBodyStalled):
		return "began to answer and did not end in time: send the head of an answer when its body is ready"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection to " + where + " was refused: check that the endpoint runs and listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to " + where + ": check the network"
	case timedOut:
		return "the connection to " + where + " timed out: check firewalls and NetworkPolicies between the operator and the endpoint"
	}
	return "the connection to " + where + " broke before the answer was complete: check the endpoint's log"
}

// explainTLS explains a TLS error; it returns "" for other errors.
func (e *Executor) explainTLS(err error) string {
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.explainCertificate(invalid)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return e.url.Host + " does not speak TLS: check the port, and that the endpoint serves HTTPS"
	}
	text := err.Error()
	if end, ok := errors.AsType[*net.OpError](err); ok && end.Op == "local error" {
		text = end.Err.Error()
	} else if ok && end.Op == "remote error" {
		alert := strings.TrimPrefix(end.Err.Error(), "tls: ")
		return fmt.Sprintf("the endpoint refused the TLS connection (%s): %s", alert, hintForTLSAlert(alert))
	}
	if text, ok := strings.CutPrefix(text, "tls: "); ok {
		return fmt.Sprintf("no TLS connection could be made (%s): check what TLS the endpoint offers; 1.2 or newer is needed", text)
	}
	return ""
}

// hintForTLSAlert returns what to do about a TLS alert (RFC 8446, section 6.2).
func hintForTLSAlert(alert string) string {
	switch {
	case strings.Contains(alert, "version"):
		return "it must offer TLS 1.2 or newer"
	case strings.Contains(alert, "certificate required"):
		return "name a Secret with a client certificate in tls.certificateSecret of the Plugin"
	case strings.Contains(alert, "expired"):
		return "renew the client certificate in the Plugin's Secret"
	}
	return "check the client certificate in the Plugin's Secret, and what the endpoint trusts"
}

// explainCertificate returns why the endpoint is not trusted.
func (e *Executor) explainCertificate(err *tls.CertificateVerificationError) string {
	const day = "2006-01-02"
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		what := "its certificate"
		if invalid.Cert.IsCA {
			what = "the certificate of its authority"
		}
		if e.now().Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("%s is not valid before %s: check the clocks, or wait", what, invalid.Cert.NotBefore.UTC().Format(day))
		}
		return fmt.Sprintf("%s expired on %s: renew it", what, invalid.Cert.NotAfter.UTC().Format(day))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by an authority that is not trusted: put the authority's certificate into the Plugin's caBundle"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("its certificate is not valid for %q%s: set tls.serverName in the Plugin to a name of the certificate, or issue one for this name",
			e.serverName, describeCertificateNames(wrong.Certificate))
	}
	return "its certificate is not accepted (" + err.Err.Error() + "): issue another one"
}

// describeCertificateNames lists the first names that a certificate is valid for.
func describeCertificateNames(certificate *x509.Certificate) string {
	const shown = 3
	all := slices.Clone(certificate.DNSNames)
	for _, ip := range certificate.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return " or any other name"
	}
	text := " but for " + strings.Join(all[:min(len(all), shown)], ", ")
	if len(all) > shown {
		text += fmt.Sprintf(" and %d more", len(all)-shown)
	}
	return text
}
