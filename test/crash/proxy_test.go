// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
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
	// fault is what happens to the write instead, if spring is nil.
	fault faultproxy.Fault
	// meet, if set, is called with every write before it is passed on, and may delay it
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

// count adds a write, and reports whether it springs the trap.
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

// digest is the end of the name of a HookRun, a VolumeSnapshot or its content, which differs from run to run.
var digest = regexp.MustCompile(`-([0-9a-f]{10}|[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)

// kindOf returns what a write does, the same for every run.
func kindOf(r *http.Request, run string) string {
	path := strings.ReplaceAll(r.URL.Path, run, "NAME")
	kind := r.Method + " " + digest.ReplaceAllString(path, "")
	for _, key := range slices.Sorted(maps.Keys(r.URL.Query())) {
		kind += " " + key // tells the requests of a multipart upload apart
	}
	return kind
}

// serverProxy stands between the operator and a server.
type serverProxy struct {
	url   string
	proxy *faultproxy.Proxy
	// plugins, if set, is a label selector: others are hidden from the operator.
	plugins string
}

// newServerProxy opens a gate to the server at target until the test ends.
func newServerProxy(t *testing.T, target string, transport http.RoundTripper) *serverProxy {
	t.Helper()
	proxy := faultproxy.New(t, target, transport)
	return &serverProxy{url: proxy.URL, proxy: proxy}
}

// arm sets the trap; nil for none.
func (g *serverProxy) arm(t *trap) {
	g.proxy.SetFaultInjector(func(r *faultproxy.Request) faultproxy.Fault {
		if g.plugins != "" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/v1alpha1/plugins") {
			query := r.URL.Query()
			query.Set("labelSelector", g.plugins)
			r.URL.RawQuery = query.Encode()
		}
		if t == nil {
			return faultproxy.Fault{}
		}
		return t.decide(r)
	})
}

// decide counts a write for the run, and springs the trap if it is the one.
func (t *trap) decide(r *faultproxy.Request) faultproxy.Fault {
	if !r.IsWrite() {
		return faultproxy.Fault{}
	}
	if body := r.ReadBody(); !strings.Contains(r.URL.Path, t.run) && !bytes.Contains(body, []byte(t.run)) {
		return faultproxy.Fault{}
	}
	kind := kindOf(r.Request, t.run)
	springs := t.count(kind)
	if springs && t.spring != nil && t.when == before && t.spring() {
		return faultproxy.Fault{Drop: faultproxy.DropRequest}
	}
	if t.meet != nil {
		t.meet(r.Context(), kind)
	}
	switch {
	case !springs:
		return faultproxy.Fault{}
	case t.spring == nil:
		return t.fault
	case t.when == after:
		return faultproxy.Fault{OnResponse: t.spring}
	}
	return faultproxy.Fault{}
}
