// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// onPath returns a fault for requests whose path ends in suffix.
func onPath(suffix string, answer func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		answer(w, r)
		return true
	}
}

func code(n int32, reason metav1.StatusReason) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { status(w, n, reason, "") }
}

func TestWriteArchive_PartialFailures(t *testing.T) {
	without := func(list []string, prefixes ...string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
		})
	}
	all := slices.Concat(shopItems, shopNeeds)
	for name, tc := range map[string]struct {
		fault   func(http.ResponseWriter, *http.Request) bool
		want    []string
		err     string // part of the one error
		warning string // part of a warning beside that of the claim
	}{
		"kind fails forever": {
			onPath("/configmaps", code(500, metav1.StatusReasonInternalError)),
			without(all, "configmaps"), "configmaps", "",
		},
		"kind is forbidden": {
			onPath("/pods", code(403, metav1.StatusReasonForbidden)),
			without(all, "pods", "priorityclasses"), "pods", "",
		},
		"kind is not found, and is discovered": {
			onPath("/widgets", code(404, metav1.StatusReasonNotFound)),
			without(all, "widgets", "customresourcedefinitions"), "widgets", "",
		},
		"connection is cut in a page": {
			onPath("/configmaps", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5000")
				_, _ = io.WriteString(w, `{"metadata":{},"items":[{"metadata":{"name":"a","namespace":"shop"}},`)
			}),
			without(all, "configmaps"), "configmaps", "",
		},
		"group is down": {
			onPath("/apis/example.org/v1", code(503, metav1.StatusReasonServiceUnavailable)),
			// The other version of the group still serves the objects.
			slices.Concat(without(all, "widgets"), []string{"widgets shop/w"}), "example.org/v1", "",
		},
		"object vanishes between LIST and GET": {
			onPath("/persistentvolumes/pv-1", func(w http.ResponseWriter, _ *http.Request) { notFound(w, "persistentvolumes", "pv-1") }),
			without(all, "persistentvolumes"), "", `persistentvolumes "pv-1"`,
		},
		"object cannot be read": {
			onPath("/priorityclasses/high", code(500, metav1.StatusReasonInternalError)),
			without(all, "priorityclasses"), `priorityclasses`, "",
		},
		"list for an action fails": {
			onPath("/clusterrolebindings", code(500, metav1.StatusReasonInternalError)),
			without(all, "clusterrolebindings", "clusterroles"), "service-account", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := testCluster()
			api.fault = tc.fault
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, Options{})
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			expectMessage(t, "error", result.Results.Errors, tc.err)
			if tc.warning != "" {
				expectMessage(t, "warning", result.Results.Warnings, tc.warning)
			}
		})
	}
}

// expectMessage expects exactly one message that contains part, or none if part is empty,
// apart from the one about the claim.
func expectMessage(t *testing.T, what string, problems results.Problems, part string) {
	t.Helper()
	var all []string
	for _, p := range problems {
		if p.Reason != results.ReasonDataNotCaptured {
			all = append(all, p.Message)
		}
	}
	if part == "" && len(all) == 0 {
		return
	}
	if len(all) != 1 || part == "" || !strings.Contains(all[0], part) {
		t.Errorf("%ss are %q, want one with %q", what, all, part)
	}
}

func TestWriteArchive_ExpiredContinueToken(t *testing.T) {
	api := testCluster()
	var once sync.Once
	api.fault = func(w http.ResponseWriter, r *http.Request) (handled bool) {
		if strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Get("continue") == "2" {
			once.Do(func() {
				status(w, http.StatusGone, metav1.StatusReasonExpired, "1") // overlaps what was sent
				handled = true
			})
		}
		return handled
	}
	result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{
		IncludedNamespaces: []string{"shop"}, IncludedResources: []string{"configmaps"},
	}}, Options{})
	if diff := cmp.Diff([]string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"}, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	expectMessage(t, "warning", result.Results.Warnings, "expired")
}

func TestWriteArchive_RetryAfter(t *testing.T) {
	api := testCluster()
	var mu sync.Mutex
	refused := map[string]bool{}
	api.fault = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if refused[r.URL.Path] || strings.HasPrefix(r.URL.Path, "/apis") && strings.Count(r.URL.Path, "/") < 4 || r.URL.Path == "/api" || r.URL.Path == "/api/v1" {
			return false
		}
		refused[r.URL.Path] = true
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, Options{})
	if want := len(shopItems) + len(shopNeeds); len(got) != want || result.Results.ErrorCount != 0 {
		t.Errorf("%d objects, want %d; errors: %+v", len(got), want, result.Results.Errors)
	}
}

func TestWriteArchive_UnselectedGroupDown(t *testing.T) {
	api := testCluster()
	api.fault = onPath("/apis/example.org/v1", code(503, metav1.StatusReasonServiceUnavailable))
	result, _ := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedResources: []string{"configmaps"}}}, Options{})
	expectMessage(t, "error", result.Results.Errors, "")
}

// TestWriteArchive_TooLargeObject asserts that an object which no Restore would accept is
// an error of that object, and that the archive has all others and can be read.
func TestWriteArchive_TooLargeObject(t *testing.T) {
	result, paths := backedUp(t, testCluster(), ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedResources: []string{"configmaps", "pods"}}},
		Options{Limits: archive.Limits{EntryBytes: 250}})
	if len(paths) < 3 || slices.Contains(paths, "pods shop/web-0") {
		t.Errorf("the archive has %q, want all but the large Pod", paths)
	}
	if result.Results.ErrorCount != 1 {
		t.Fatalf("%d errors, want one: %+v", result.Results.ErrorCount, result.Results.Errors)
	}
	expectMessage(t, "errors", result.Results.Errors, `pods "shop/web-0" cannot be archived: object is too large for an archive`)
}

// TestWriteArchive_TooLargeArchive asserts that a backup which no Restore would accept
// fails.
func TestWriteArchive_TooLargeArchive(t *testing.T) {
	for name, limits := range map[string]archive.Limits{
		"files":  {Entries: 5},
		"bytes":  {TotalBytes: 8 << 10},
		"memory": {IndexBytes: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(testCluster().cluster(t), Options{Limits: limits}).WriteArchive(t.Context(), ArchiveRequest{}, io.Discard)
			if !errors.Is(err, archive.ErrLimitExceeded) || !strings.Contains(err.Error(), "select fewer objects, in several Backups, or raise --max-archive-size") {
				t.Errorf("Run: %v, want %v and what to do", err, archive.ErrLimitExceeded)
			}
		})
	}
}

func TestWriteArchive_EmptyBackup(t *testing.T) {
	result, _ := backedUp(t, testCluster(), ArchiveRequest{Selection: selection.Spec{
		IncludedNamespaces: []string{"shop"}, IncludedResources: []string{"configmaps"},
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}},
	}}, Options{})
	expectMessage(t, "warning", result.Results.Warnings, "label selector: app=none")
}

var errFull = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWriteArchive_Failures(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		out   io.Writer
		spec  selection.Spec
		want  string
	}{
		"discovery does not answer": {fault: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/api") || strings.Contains(r.URL.Path, "namespaces") {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}, want: "discover"},
		"the core group is not found": {fault: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api" {
				return false
			}
			http.Error(w, "404 page not found", http.StatusNotFound)
			return true
		}, want: "lists no namespaces"},
		"namespaces cannot be listed": {fault: onPath("/namespaces", code(403, metav1.StatusReasonForbidden)), want: "namespaces"},
		"archive cannot be written":   {out: failingWriter{}, want: errFull.Error()},
		"selection makes no sense":    {spec: selection.Spec{IncludedNamespaces: []string{"[a"}}, want: "includedNamespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			api := testCluster()
			api.fault = tc.fault
			if tc.out == nil {
				tc.out = io.Discard
			}
			_, err := New(api.cluster(t), Options{}).WriteArchive(context.Background(), ArchiveRequest{Selection: tc.spec}, tc.out)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run: %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// stuckWriter is a store that stops accepting bytes until it is released.
type stuckWriter struct{ entered, release chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	select {
	case w.entered <- struct{}{}:
	default:
	}
	<-w.release
	return len(p), nil
}

func TestWriteArchive_BlockedWriter(t *testing.T) {
	random := make([]byte, 400_000)
	source := rand.NewChaCha8([32]byte{})
	if _, err := source.Read(random); err != nil {
		t.Fatal(err)
	}
	api := testCluster()
	maps := api.kinds[1]
	for i := range 40 {
		maps.objects = append(maps.objects, obj("shop", fmt.Sprintf("more-%02d", i), object{"binaryData": random}))
	}
	engine := New(api.cluster(t), Options{InFlight: 1, Readers: 1})
	req := ArchiveRequest{Selection: selection.Spec{IncludedResources: []string{"configmaps"}}}
	stuck := stuckWriter{make(chan struct{}, 1), make(chan struct{})}
	first := make(chan error, 1)
	go func() {
		_, err := engine.WriteArchive(context.Background(), req, stuck)
		first <- err
	}()
	<-stuck.entered
	if _, err := engine.WriteArchive(context.Background(), req, io.Discard); err != nil {
		t.Error(err)
	}
	close(stuck.release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestWriteArchive_CanceledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	api := testCluster()
	api.fault = onPath("/configmaps", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	result, err := New(api.cluster(t), Options{}).WriteArchive(ctx, ArchiveRequest{StartTime: time.Unix(0, 0)}, io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want it canceled", err)
	}
	if result.Results.ErrorCount != 0 {
		t.Errorf("the end of the run is reported for its objects: %+v", result.Results.Errors)
	}
}
