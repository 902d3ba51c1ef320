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

// The sides: nowhere, before the server saw the request, and after it answered.
const (
	DropNothing DropPoint = iota
	DropRequest
	DropResponse
)

// Fault is what happens to one request. The zero value lets it pass.
type Fault struct {
	// Delay passes the request on later.
	Delay time.Duration
	// Detached passes the request on even if the client has given up meanwhile, as a
	// proxy does that does not notice.
	Detached bool
	// Status answers the request instead of the server. With RetryAfter the answer has
	// that header, in seconds.
	Status, RetryAfter int
	// Drop closes the connection. Before: the request is lost. After: only its answer is.
	Drop DropPoint
	// Truncate ends the body of the answer in the middle and closes the connection.
	Truncate bool
	// OnResponse, if set, is called once the server answered or the client gave up. The
	// answer is dropped if it returns true.
	OnResponse func() (drop bool)
}

// TransientFaults returns the ways in which a request fails though client and server work.
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

// Request is a request on its way.
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

// IsWrite reports whether the request changes what the server has.
func (r *Request) IsWrite() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// IsWatch reports whether the request watches objects of an API server.
func (r *Request) IsWatch() bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}
