// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Mode is the effect of a partition on the client.
type Mode int

// The modes of a partition.
const (
	// Connected means no partition.
	Connected Mode = iota
	// Refuse closes every connection, including those in use.
	Refuse
	// Hang neither responds nor closes connections. Requests in flight continue when the
	// partition is healed, if the client still waits.
	Hang
)

func (m Mode) String() string { return [...]string{"connected", "refuse", "hang"}[m] }

// Proxy injects faults into the requests to one server. It is safe for concurrent use.
type Proxy struct {
	// URL is the address of the proxy.
	URL string

	mu          sync.Mutex
	injectFault func(*Request) Fault
	mode        Mode
	watchesHeld bool
	// changed is closed and replaced when mode or held change.
	changed chan struct{}
	// inFlight are the requests in flight; the value is true for a watch.
	inFlight map[*inFlightRequest]bool
}

// inFlightRequest is a request in flight.
type inFlightRequest struct {
	cancel context.CancelFunc
	fault  Fault
}

type inFlightKey struct{}

var errDropped = errors.New("the proxy dropped the response")

// New starts a proxy to the server at target until the test ends.
func New(t testing.TB, target string, transport http.RoundTripper) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{changed: make(chan struct{}), inFlight: map[*inFlightRequest]bool{}}
	next := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: p.disturbResponse,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if f, ok := r.Context().Value(inFlightKey{}).(*inFlightRequest); ok && f.fault.OnResponse != nil && !errors.Is(err, errDropped) {
				f.fault.OnResponse() // the client gave up first
			}
			panic(http.ErrAbortHandler)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.forwardRequest(w, r, next) }))
	t.Cleanup(func() {
		p.Partition(Refuse)
		server.CloseClientConnections()
		server.Close()
	})
	p.URL = server.URL
	return p
}

// SetFaultInjector sets the function that decides on the fault of each request; nil passes all
// of them on. The function may be called concurrently.
func (p *Proxy) SetFaultInjector(decide func(*Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injectFault = decide
}

// Partition separates the client from the server.
func (p *Proxy) Partition(mode Mode) {
	p.updateState(func() { p.mode = mode })
	if mode == Refuse {
		p.cancelRequests(func(bool) bool { return true })
	}
}

// Heal ends a partition, and lets watches continue.
func (p *Proxy) Heal() { p.updateState(func() { p.mode, p.watchesHeld = Connected, false }) }

// HoldWatches delays the events of watches until Heal.
func (p *Proxy) HoldWatches() { p.updateState(func() { p.watchesHeld = true }) }

// CutWatches ends all open watches, as a server may do at any time.
func (p *Proxy) CutWatches() { p.cancelRequests(func(isWatch bool) bool { return isWatch }) }

func (p *Proxy) updateState(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) cancelRequests(which func(isWatch bool) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f, isWatch := range p.inFlight {
		if which(isWatch) {
			f.cancel()
		}
	}
}

// waitUntilConnected returns when no partition separates the client from the server. It aborts the
// request if the client gives up before, or is refused.
func (p *Proxy) waitUntilConnected(ctx context.Context, isWatch bool) error {
	for {
		p.mu.Lock()
		mode, held, changed := p.mode, p.watchesHeld && isWatch, p.changed
		p.mu.Unlock()
		switch {
		case mode == Refuse:
			return errDropped
		case mode == Connected && !held:
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Proxy) forwardRequest(w http.ResponseWriter, in *http.Request, next http.Handler) {
	r := &Request{Request: in}
	p.mu.Lock()
	decide, mode := p.injectFault, p.mode
	p.mu.Unlock()
	if mode == Hang {
		r.ReadBody() // otherwise it is not detected when the client gives up
	}
	abortOnError(p.waitUntilConnected(in.Context(), false))
	var fault Fault
	if decide != nil {
		fault = decide(r)
	}
	ctx := in.Context()
	if fault.Detached {
		r.ReadBody()
		ctx = context.WithoutCancel(ctx)
	}
	if fault.Delay > 0 {
		r.ReadBody()
		abortOnError(sleepContext(ctx, fault.Delay))
	}
	switch {
	case fault.Drop == DropRequest:
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		http.Error(w, http.StatusText(fault.Status)+" (injected)", fault.Status)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &inFlightRequest{cancel: cancel, fault: fault}
	p.mu.Lock()
	p.inFlight[f] = r.IsWatch()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.inFlight, f)
	}()
	next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, inFlightKey{}, f)))
}

func abortOnError(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// disturbResponse applies the fault to the response of the server.
func (p *Proxy) disturbResponse(r *http.Response) error {
	f, ok := r.Request.Context().Value(inFlightKey{}).(*inFlightRequest)
	if !ok {
		return nil
	}
	if f.fault.OnResponse != nil && f.fault.OnResponse() {
		return errDropped
	}
	if f.fault.Drop == DropResponse {
		return errDropped
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		return nil // its body is a connection
	}
	body := &responseBody{ReadCloser: r.Body, proxy: p, ctx: r.Request.Context(), isWatch: (&Request{Request: r.Request}).IsWatch()}
	if f.fault.Truncate && !body.isWatch {
		half, err := readFirstHalf(r.Body)
		if err != nil {
			return err
		}
		body.Reader = half
	}
	r.Body = body
	return nil
}

// readFirstHalf reads everything and returns the first half, which ends with an error.
func readFirstHalf(r io.Reader) (io.Reader, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(content[:len(content)/2]), truncatedReader{}), nil
}

type truncatedReader struct{}

func (truncatedReader) Read([]byte) (int, error) { return 0, errDropped }
