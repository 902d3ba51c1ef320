// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSend(t *testing.T) {
	rec := &recorder{requests: map[string]int{}}
	server := httptest.NewServer(rec)
	t.Cleanup(server.Close)
	times, err := Send(t.Context(), newClient(server.URL, server.Client().Transport), SendRequest{
		Workers: 2, Steps: [][]Message{
			{{Path: "/a", Body: json.RawMessage(`{"n":1}`)}},
			{{Path: "/a/1", Patch: true, Body: json.RawMessage(`{"n":3}`)}},
			{{Path: "/b", Body: json.RawMessage(`{"n":2}`)}, {Path: "/b/1"}, {Path: "/b/1"}, {Path: "/b/2"}},
		},
	})
	if err != nil || times.Seconds <= 0 {
		t.Errorf("times are %+v (%v)", times, err)
	}
	want := map[string]int{"POST /a": 1, "PATCH /a/1": 1, "POST /b": 1, "GET /b/1": 2, "GET /b/2": 1}
	if diff := cmp.Diff(want, rec.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if want := []string{`{"n":1}`, `{"n":2}`}; !slices.Equal(rec.bodies, want) {
		t.Errorf("what is created is %q, want %q: the steps follow each other", rec.bodies, want)
	}
}

// A figure that counts refusals as work done would be too good.
func TestSend_RefusedRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	_, err := Send(t.Context(), newClient(server.URL, server.Client().Transport), SendRequest{
		Workers: 1, Steps: [][]Message{{{Path: "/a"}}},
	})
	if err == nil || !strings.Contains(err.Error(), "too many requests") {
		t.Errorf("the error is %v, want the answer of the server", err)
	}
}
