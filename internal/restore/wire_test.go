// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wire is between the engine and the API server.
type wire struct {
	mu    sync.Mutex
	asked []string // "POST /api/v1/..."
	// fault may answer a request; next sends it.
	fault func(r *http.Request, next http.RoundTripper) (*http.Response, error)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *wire) around(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+r.URL.RequestURI())
		fault := w.fault
		w.mu.Unlock()
		if fault != nil {
			return fault(r, next)
		}
		return next.RoundTrip(r)
	})
}

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = nil
}

func (w *wire) set(fault func(r *http.Request, next http.RoundTripper) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// cancelRefusedOperation answers a request like an API server that rejects it.
func cancelRefusedOperation(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	return answer(r, code, fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"refused by the test"}`, reason, code))
}

// answer answers a request instead of the API server.
func answer(r *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// requests returns those that begin with method and have part in their path.
func (w *wire) requests(method, part string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, asked := range w.asked {
		if strings.HasPrefix(asked, method+" ") && strings.Contains(asked, part) {
			out = append(out, asked)
		}
	}
	return out
}

// writes returns all requests that change something.
func (w *wire) writes() []string {
	var out []string
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		out = append(out, w.requests(method, "/")...)
	}
	return out
}
