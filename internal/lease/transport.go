// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"net/http"
	"strings"
)

// WrapTransport returns a transport to the API server whose requests wait for the Fence,
// except those that change nothing. It has the signature that rest.Config.Wrap expects.
func (f *Fence) WrapTransport(next http.RoundTripper) http.RoundTripper {
	if f == nil {
		return next
	}
	return &fencedTransport{next: next, fence: f}
}

type fencedTransport struct {
	next  http.RoundTripper
	fence *Fence
}

// RoundTrip makes a request; see http.RoundTripper.
func (t *fencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isMutating(req) {
		if err := t.fence.WaitForLease(req.Context()); err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // required by RoundTrip; the error does not matter
			}
			return nil, fmt.Errorf("not sent: %w", err)
		}
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// isMutating reports whether a request may change something. Reviews do not; they authorize
// readers of metrics, and every operator serves metrics. Commands in containers do, whatever
// the method is.
func isMutating(req *http.Request) bool {
	path := req.URL.Path
	switch {
	case strings.Contains(path, "/apis/authentication.k8s.io/"), strings.Contains(path, "/apis/authorization.k8s.io/"):
		return false
	case strings.HasSuffix(path, "/exec"), strings.HasSuffix(path, "/attach"):
		return true
	}
	return req.Method != http.MethodGet && req.Method != http.MethodHead && req.Method != http.MethodOptions
}
