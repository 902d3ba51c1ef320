// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// lister is an API server with two collections of pages.
type lister struct {
	mu    sync.Mutex
	asked map[string]int
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asked[r.URL.RequestURI()]++
	l.mu.Unlock()
	query := r.URL.Query()
	switch {
	case r.URL.Path == "/many" && query.Get("limit") == "1":
		_, _ = fmt.Fprint(w, `{"kind":"L","metadata":{"continue":"x","remainingItemCount":1199},"items":[{}]}`)
	case r.URL.Path == "/many" && query.Get("continue") == "":
		_, _ = fmt.Fprintf(w, `{"kind":"L","metadata":{"resourceVersion":"7","continue":"a/b","remainingItemCount":700},"items":[%q]}`,
			strings.Repeat("x", 3*headBytes))
	case r.URL.Path == "/many" && query.Get("continue") == "a/b":
		_, _ = fmt.Fprint(w, `{"kind":"L","metadata":{},"items":[]}`)
	case r.URL.Path == "/few":
		_, _ = fmt.Fprint(w, `{"kind":"L","metadata":{},"items":[{}]}`)
	default:
		http.Error(w, "not that", http.StatusForbidden)
	}
}

func TestBestListing(t *testing.T) {
	l := &lister{asked: map[string]int{}}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	c := newClient(server.URL, server.Client().Transport)
	got, err := BestListing(t.Context(), c, []string{"/many", "/few"}, []int{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	if got.Objects != 1201 {
		t.Errorf("%d objects were counted, want 1201", got.Objects)
	}
	if got.Bytes < 3*headBytes || got.Bytes > 4*headBytes {
		t.Errorf("%d bytes were read, want those of three pages", got.Bytes)
	}
	if got.Workers != 1 && got.Workers != 3 {
		t.Errorf("%d workers were best, which was not requested", got.Workers)
	}
	for _, uri := range []string{"/many?limit=500", "/many?continue=a%2Fb&limit=500", "/few?limit=500"} {
		if n := l.asked[uri]; n != 2 {
			t.Errorf("%s was asked for %d times, want once with each number of workers", uri, n)
		}
	}
	if _, err := BestListing(t.Context(), c, []string{"/forbidden"}, []int{1}); err == nil || !strings.Contains(err.Error(), "not that") {
		t.Errorf("the error is %v, want what the server says", err)
	}
}

func TestParseHead(t *testing.T) {
	for name, tc := range map[string]struct {
		head string
		want listMeta
		err  bool
	}{
		"first page": {head: `{"metadata":{"continue":"t","remainingItemCount":5},"items":[{"a"`, want: listMeta{Continue: "t", Remaining: 5}},
		"last page":  {head: `{"metadata":{"resourceVersion":"1"},"items":null}`},
		"no list":    {head: `{"kind":"Status"}`, err: true},
		"no JSON":    {head: `x,"items":[`, err: true},
	} {
		got, err := parseHead([]byte(tc.head))
		if got != tc.want || (err != nil) != tc.err {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
