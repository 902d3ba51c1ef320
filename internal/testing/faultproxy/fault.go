// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// DropPoint is the side of the server on which a connection is closed.
type DropPoint int

// The drop points: never, before the server saw the request, and after it responded.
const (
	DropNothing DropPoint = iota
	DropRequest
	DropResponse
)

// Fault is the fault of one request. The zero value passes it on unchanged.
type Fault struct {
	// Delay delays the request.
	Delay time.Duration
	// Detached passes the request on even if the client has given up in the meantime, like
	// a proxy that does not detect this.
	Detached bool
	// Status is the status of a response that replaces the server's. With RetryAfter, the
	// response has that header, in seconds.
	Status, RetryAfter int
	// Drop closes the connection. Before: the request is lost. After: only its response is
	// lost.
	Drop DropPoint
	// Truncate ends the body of the response in the middle and closes the connection.
	Truncate bool
	// OnResponse, if set, is called once the server responded or the client gave up. The
	// response is dropped if it returns true.
	OnResponse func() (drop bool)
}

// TransientFaults returns the faults of a request between a working client and server.
func TransientFaults() []Fault {
	return []Fault{
		{Status: http.StatusTooManyRequests, RetryAfter: 1},
		{Status: http.StatusInternalServerError},
		{Status: http.StatusServiceUnavailable},
		{Drop: DropRequest},
		{Drop: DropResponse},
		{Truncate: true},
	}
}

func (f Fault) String() string {
	var words []string
	if f.Delay > 0 {
		words = append(words, fmt.Sprintf("delayed by %v", f.Delay))
	}
	if f.Detached {
		words = append(words, "not given up")
	}
	if f.Status != 0 {
		words = append(words, fmt.Sprintf("answered %d", f.Status))
	}
	switch f.Drop {
	case DropNothing:
	case DropRequest:
		words = append(words, "lost")
	case DropResponse:
		words = append(words, "answer lost")
	}
	if f.Truncate {
		words = append(words, "answer cut")
	}
	if len(words) == 0 {
		return "passed"
	}
	return strings.Join(words, ", ")
}

// Request is a request in the proxy.
type Request struct {
	*http.Request

	body     []byte
	bodyRead bool
}

// ReadBody returns the body. It aborts the request if the client does not send all of it.
func (r *Request) ReadBody() []byte {
	if !r.bodyRead {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.body, r.bodyRead = body, true
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.body
}

// IsWrite reports whether the request changes the state of the server.
func (r *Request) IsWrite() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// IsWatch reports whether the request watches objects of an API server.
func (r *Request) IsWatch() bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}
