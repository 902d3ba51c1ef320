// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// when says on which side of a write the operator is hit.
type when int

const (
	// before the write is passed on: it is lost.
	before when = iota
	// after the write was made: only its answer is lost.
	after
)

func (w when) String() string { return [...]string{"before", "after"}[w] }

// trap hits the operator at writes for one run.
type trap struct {
	// run is the name of the Backup or Restore; a write that does not mention it is
	// not counted.
	run string
	// kind is that of the writes that matter; empty means all of them.
	kind string
	// at is the number of the write that springs the trap, from 1; 0 for none.
	at   int
	when when
	// again springs it at every multiple of that number.
	again bool
	// spring hits the operator. If it returns false the operator gets its
	// answer all the same.
	spring func() (dead bool)
	// meet, if set, is told every write before it is passed on, and may hold it up
	// until the request's context has ended.
	meet func(ctx context.Context, kind string)

	mu   sync.Mutex
	off  bool
	seen []string
	hits int
}

// writes returns the kinds of the writes that mattered, in their order.
func (t *trap) writes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.seen)
}

// disarm ends the trap, and returns how often the operator was hit.
func (t *trap) disarm() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.off = true
	return t.hits
}

// count adds a write, and says whether it springs the trap.
func (t *trap) count(kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off || (t.kind != "" && t.kind != kind) {
		return false
	}
	t.seen = append(t.seen, kind)
	if t.at == 0 || (t.hits > 0 && !t.again) || len(t.seen)%t.at != 0 {
		return false
	}
	t.hits++
	return true
}

// digest is the end of a HookRun's name, which differs from run to run.
var digest = regexp.MustCompile(`-[0-9a-f]{10}\b`)

// kindOf returns what a write does, the same for every run.
func kindOf(r *http.Request, run string) string {
	path := strings.ReplaceAll(r.URL.Path, run, "NAME")
	kind := r.Method + " " + digest.ReplaceAllString(path, "")
	for _, key := range slices.Sorted(maps.Keys(r.URL.Query())) {
		kind += " " + key // tells the requests of a multipart upload apart
	}
	return kind
}

// gate stands between the operator and a server.
type gate struct {
	url string

	mu    sync.Mutex
	armed *trap
}

// newGate opens a gate to the server at target until the test ends.
func newGate(t *testing.T, target string, transport http.RoundTripper) *gate {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ModifyResponse: func(r *http.Response) error {
			if t, ok := r.Request.Context().Value(trapKey{}).(*trap); ok && t.spring() {
				return errDead
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if t, ok := r.Context().Value(trapKey{}).(*trap); ok && !errors.Is(err, errDead) {
				t.spring() // it gave up before it was answered
			}
			panic(http.ErrAbortHandler) // whoever asked is dead, or not interested any more
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.pass(w, r, proxy)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	g.url = server.URL
	return g
}

var errDead = errors.New("the operator is dead")

// trapKey is where a request carries the trap that its answer springs.
type trapKey struct{}

// arm sets the trap; nil for none.
func (g *gate) arm(t *trap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = t
}

func (g *gate) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	g.mu.Lock()
	t := g.armed
	g.mu.Unlock()
	if t == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
		next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the operator is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.Contains(r.URL.Path, t.run) && !bytes.Contains(body, []byte(t.run)) {
		next.ServeHTTP(w, r)
		return
	}
	kind := kindOf(r, t.run)
	springs := t.count(kind)
	if springs && t.when == before && t.spring() {
		panic(http.ErrAbortHandler)
	}
	if t.meet != nil {
		t.meet(r.Context(), kind)
	}
	if springs && t.when == after {
		r = r.WithContext(context.WithValue(r.Context(), trapKey{}, t))
	}
	next.ServeHTTP(w, r)
}
