// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
)

const answer = "0123456789"

// newProxy returns a proxy to a server that counts requests and responds to them.
func newProxy(t *testing.T) (p *faultproxy.Proxy, served *atomic.Int32) {
	t.Helper()
	served = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return faultproxy.New(t, server.URL, &http.Transport{DisableKeepAlives: true}), served
}

// ask sends a request on a new connection, because a client retries a request that fails on
// a reused connection.
func ask(ctx context.Context, t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

func TestProxy_Fault(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault                  faultproxy.Fault
		wantStatus, wantServed int
		wantBody               string
		wantErr                bool
	}{
		"none passes":            {wantStatus: 200, wantServed: 1, wantBody: answer},
		"a delay passes later":   {fault: faultproxy.Fault{Delay: time.Millisecond}, wantStatus: 200, wantServed: 1, wantBody: answer},
		"a status is answered":   {fault: faultproxy.Fault{Status: 503}, wantStatus: 503, wantBody: "Service Unavailable (injected)\n"},
		"a lost request":         {fault: faultproxy.Fault{Drop: faultproxy.DropRequest}, wantErr: true},
		"a lost answer":          {fault: faultproxy.Fault{Drop: faultproxy.DropResponse}, wantServed: 1, wantErr: true},
		"an answer that is cut":  {fault: faultproxy.Fault{Truncate: true}, wantStatus: 200, wantServed: 1, wantBody: answer[:5], wantErr: true},
		"an answer not passed":   {fault: faultproxy.Fault{OnResponse: func() bool { return true }}, wantServed: 1, wantErr: true},
		"an answer that is seen": {fault: faultproxy.Fault{OnResponse: func() bool { return false }}, wantStatus: 200, wantServed: 1, wantBody: answer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, served := newProxy(t)
			p.SetFaultInjector(func(r *faultproxy.Request) faultproxy.Fault {
				if got := string(r.ReadBody()); got != "content" || !r.IsWrite() {
					t.Errorf("the request is %s %q", r.Method, got)
				}
				return tc.fault
			})
			status, body, err := ask(t.Context(), t, p.URL)
			if status != tc.wantStatus || body != tc.wantBody || (err != nil) != tc.wantErr || int(served.Load()) != tc.wantServed {
				t.Errorf("%s: status %d, body %q, error %v, served %d", tc.fault, status, body, err, served.Load())
			}
		})
	}
}

func TestProxy_Detached(t *testing.T) {
	t.Parallel()
	p, served := newProxy(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.SetFaultInjector(func(*faultproxy.Request) faultproxy.Fault {
		cancel()
		return faultproxy.Fault{Delay: 100 * time.Millisecond, Detached: true}
	})
	if _, _, err := ask(ctx, t, p.URL); err == nil {
		t.Fatal("the client did not give up")
	}
	for deadline := time.Now().Add(10 * time.Second); served.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request was not passed on")
		}
	}
}

func TestProxy_Partition(t *testing.T) {
	t.Parallel()
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		p, served := newProxy(t)
		p.Partition(faultproxy.Refuse)
		if _, _, err := ask(t.Context(), t, p.URL); err == nil || served.Load() != 0 {
			t.Errorf("error %v, served %d", err, served.Load())
		}
		p.Heal()
		if _, body, err := ask(t.Context(), t, p.URL); err != nil || body != answer {
			t.Errorf("body %q, error %v", body, err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		p, served := newProxy(t)
		p.Partition(faultproxy.Hang)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := ask(ctx, t, p.URL); err == nil || served.Load() != 0 {
			t.Errorf("error %v, served %d", err, served.Load())
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, body, err := ask(t.Context(), t, p.URL); err != nil || body != answer {
				t.Errorf("body %q, error %v", body, err)
			}
		})
		p.Heal()
		waiting.Wait()
	})
}

func TestProxy_Watches(t *testing.T) {
	t.Parallel()
	events := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case event := <-events:
				_, _ = fmt.Fprintln(w, event)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	p := faultproxy.New(t, server.URL, http.DefaultTransport)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/things?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	events <- "one"
	if got := <-lines; got != "one" {
		t.Errorf("got %q", got)
	}
	p.HoldWatches()
	events <- "two"
	select {
	case got := <-lines:
		t.Errorf("got %q while watches are held", got)
	case <-time.After(50 * time.Millisecond):
	}
	p.Heal()
	if got := <-lines; got != "two" {
		t.Errorf("got %q", got)
	}
	p.CutWatches()
	if got, open := <-lines; open {
		t.Errorf("got %q after the watch was cut", got)
	}
}
