// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorder is an API server that takes everything and remembers it.
type recorder struct {
	mu       sync.Mutex
	requests map[string]int
	bodies   []string
}

func (r *recorder) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[req.Method+" "+req.URL.Path]++
	if req.Method == http.MethodPost {
		r.bodies = append(r.bodies, string(body))
	}
}

func TestRuns(t *testing.T) {
	rec := &recorder{requests: map[string]int{}}
	server := httptest.NewServer(rec)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	times, err := Runs(t.Context(), newClient(server.URL, server.Client().Transport), RunRequest{
		Collection: "/backups", Object: json.RawMessage(`{"kind":"Backup","spec":{"x":1}}`),
		Patches: 3, Lists: []string{"/a", "/b"}, Files: 2, Dir: dir, Count: 1, AtOnce: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if times.Seconds <= 0 || times.AtOnceSeconds <= 0 || times.WriteSeconds <= 0 || times.WriteSeconds > times.Seconds {
		t.Errorf("times are %+v", times)
	}
	want := map[string]int{
		"POST /backups": 2, "GET /a": 2, "GET /b": 2,
		"PATCH /backups/limit-0/status": 3, "PATCH /backups/limit-at-once-0/status": 3,
		"DELETE /backups/limit-0": 1, "DELETE /backups/limit-at-once-0": 1,
	}
	if diff := cmp.Diff(want, rec.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if !strings.Contains(rec.bodies[0], `"name":"limit-0"`) || !strings.Contains(rec.bodies[0], `"spec":{"x":1}`) {
		t.Errorf("what is created is %s", rec.bodies[0])
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d directories are left behind (%v)", len(left), err)
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := Median(values); got != want {
			t.Errorf("the median of %v is %v, want %v", values, got, want)
		}
	}
}
