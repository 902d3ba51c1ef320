// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// timeouts are the limits that do not depend on what an action does. Waiting for the headers of the
// answer is not among them: it takes as long as the action, and ctx limits it.
type timeouts struct {
	// connect applies to each address that is tried.
	connect time.Duration
	// handshake applies to TLS.
	handshake time.Duration
	// body applies to the body of the answer, after its headers.
	body time.Duration
}

func defaultTimeouts() timeouts {
	return timeouts{connect: 10 * time.Second, handshake: 10 * time.Second, body: time.Minute}
}

// Executor runs one action. Create it with New. It is safe for concurrent use.
type Executor struct {
	url         *url.URL
	serverName  string
	roots       *x509.CertPool // nil means those of the system
	credentials func(context.Context) (Credentials, error)
	policy      addressPolicy
	resolver    Resolver
	userAgent   string
	redactor    *redact.Redactor
	log         logr.Logger
	now         func() time.Time
	timeouts    timeouts
}

var _ executor.Executor = (*Executor)(nil)

func (e *Executor) setDefaults() {
	e.userAgent = cmp.Or(e.userAgent, "grapnel")
	if e.credentials == nil {
		e.credentials = func(context.Context) (Credentials, error) { return Credentials{}, nil }
	}
	if e.resolver == nil {
		e.resolver = net.DefaultResolver
	}
	if e.now == nil {
		e.now = time.Now
	}
}

// Execute makes one attempt; see executor.Executor.
func (e *Executor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	answer, err := e.sendRequest(ctx, call)
	if err == nil {
		return answer, nil
	}
	e.log.V(1).Info("A webhook failed", "kind", call.ActionKind(), "action", call.Action, "cause", e.redactToLine(err.Error()))
	why := e.explainError(ctx, err)
	return executor.Answer{}, executor.NewError(why.kind, call, e.redactor.String(why.text), why.err)
}

// sendRequest sends the request once: the transport repeats requests only on connections that
// served an earlier one, and there are none.
func (e *Executor) sendRequest(ctx context.Context, call executor.Call) (executor.Answer, error) {
	content, err := encodeRequest(call)
	if err != nil {
		return executor.Answer{}, &failure{kind: executor.Invalid, text: err.Error(), err: err}
	}
	secrets, err := e.loadCredentials(ctx)
	if err != nil {
		return executor.Answer{}, err
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := e.newHTTPRequest(bounded, call, content, secrets.token)
	if err != nil {
		return executor.Answer{}, &failure{kind: executor.Invalid, text: "the request cannot be made", err: err}
	}
	transport := e.newTransport(secrets)
	defer transport.CloseIdleConnections()
	// RoundTrip instead of a Client: it follows no redirects and keeps no cookies.
	response, err := transport.RoundTrip(request)
	if err != nil {
		return executor.Answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is abandoned
	guard := time.AfterFunc(e.timeouts.body, func() { cancel(errBodyStalled) })
	defer guard.Stop()
	if response.StatusCode < http.StatusOK {
		// The rest belongs to another protocol, and its connection ignores ctx.
		return e.interpretReply(ctx, httpReply{status: response.StatusCode, header: response.Header})
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	if over := context.Cause(bounded); errors.Is(over, errBodyStalled) || err == nil && over != nil {
		// Even without an error: an endpoint that detects the closed connection may end its answer
		// properly at that point, and the received part would look complete.
		err = over
	}
	return e.interpretReply(ctx, httpReply{status: response.StatusCode, header: response.Header, body: body, err: err})
}

// newTransport returns a transport for one request over one connection. It ignores proxies from the
// environment: a proxy would resolve the name itself, and the address that was checked would not be
// the one that is called.
func (e *Executor) newTransport(secrets *parsedCredentials) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            e.dialAllowedAddress,
		TLSClientConfig:        e.newTLSConfig(secrets),
		TLSHandshakeTimeout:    e.timeouts.handshake,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              protocols,
	}
}
