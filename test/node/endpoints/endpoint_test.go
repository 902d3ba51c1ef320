// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	const good = `{"apiVersion":"hooks.grapnel.dev/v1","point":"Delete","key":"k","attempt":2,"backupName":"b","parameters":{"who":"me"}}`
	e := newEndpoint()
	for _, c := range []struct {
		body, key, want string
		code            int
	}{
		{body: "{}", key: "", want: "this is no call of a hook", code: http.StatusBadRequest},
		{body: good, key: "another", want: "this is no call of a hook", code: http.StatusBadRequest},
		{body: good, key: "k", want: "", code: http.StatusAccepted},
		{body: good, key: "k", want: "Delete: attempt 2 for b, by me", code: http.StatusOK},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body))
		request.Header.Set("Idempotency-Key", c.key)
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, request)
		if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d %q", c.body, answer.Code, answer.Body, c.code, c.want)
		}
	}
}
