// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var (
	pods    = ResourceKind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}
	widgets = ResourceKind{
		Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1beta1", Resource: "widgets"},
		Kind:     "Widget",
	}
)

// listAnswer is one response of a scripted API server.
type listAnswer struct {
	code       int // 0 is 200
	body       string
	retryAfter string
	// cut ends the connection after the body, before the response is complete.
	cut bool
}

// script is an API server that gives its answers in order and records the
// requests.
type script struct {
	mu      sync.Mutex
	answers []listAnswer
	asked   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	s.asked = append(s.asked, strings.TrimSuffix(r.URL.EscapedPath()+"?"+query, "?"))
	a := listAnswer{code: http.StatusTeapot, body: "no answer left"}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	if a.cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(a.body)+1000))
	}
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	_, _ = w.Write([]byte(a.body))
}

// clientOf returns a Client of a server that records its delays instead of waiting.
func clientOf(t *testing.T, handler http.Handler, opts ListOptions) (*Lister, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var slept []time.Duration
	opts.Sleep = func(ctx context.Context, d time.Duration) error {
		slept = append(slept, d)
		return ctx.Err()
	}
	client, err := NewLister(&rest.Config{Host: server.URL}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return client, &slept
}

// items returns a Handler that collects "key=json" of each object.
func items(got *[]string) Handler {
	return Handler{Batch: func(b *Batch) error {
		for _, item := range b.Items {
			*got = append(*got, item.Key+"="+string(item.JSON))
		}
		b.Release()
		return nil
	}}
}

func page(next string, items ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`+"\n",
		next, strings.Join(items, ","))
}

func podJSON(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"spec":{}}`, name)
}

func wantPod(name string) string {
	return fmt.Sprintf(`ns/%s={"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"ns"},"spec":{}}`, name, name)
}
