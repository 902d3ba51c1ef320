// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"net/http"
	"strings"
)

// WrapTransport returns a transport to the API server whose requests wait for the Fence,
// except those that change nothing. It has the form that rest.Config.Wrap takes.
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
				_ = req.Body.Close() // the contract of RoundTrip; there is nothing to lose
			}
			return nil, fmt.Errorf("not sent: %w", err)
		}
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns what client-go looks for below.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// isMutating reports whether a request may change something. Reviews do not, and are made
// for those who ask for metrics, of a leader or not; commands in containers do, whatever
// their method is.
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
