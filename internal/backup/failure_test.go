// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// logOf returns a logger that records its lines, and a function that returns them.
func logOf() (logr.Logger, func() string) {
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	return log, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
}

func configMaps(paths []string) (out []string) {
	for _, path := range paths {
		if strings.HasPrefix(path, "configmaps ") {
			out = append(out, path)
		}
	}
	return out
}

// An object that causes a panic is an error of that object.
func TestWriteArchive_Panic(t *testing.T) {
	explode := func(name string) itemaction.Result {
		if name == "b" {
			panic("boom")
		}
		return itemaction.Result{}
	}
	for name, tc := range map[string]struct {
		action    itemaction.BackupAction
		want      []string
		wantError string
	}{
		"in an action of the operator": {
			action: fakeAction{func(item itemaction.BackupItem) (itemaction.Result, error) { return explode(item.Name), nil }},
			want:   []string{"configmaps shop/a", "configmaps shop/c"}, wantError: `configmaps "shop/b" is missing from this backup: item action fake: internal error: boom`,
		},
		"in an action of a plugin": {
			action: outside{execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
				return explode(item.Name), nil
			}},
			want: []string{"configmaps shop/a", "configmaps shop/c"}, wantError: `configmaps "shop/b" is missing from this backup: item action example.io/: internal error: boom`,
		},
		"when the selector of an action is requested": {
			action: outside{concerns: func(_ string, labels map[string]string) bool {
				if labels["app"] == "web" {
					panic("boom")
				}
				return true
			}},
			want: []string{"configmaps shop/b", "configmaps shop/c"}, wantError: `configmaps "shop/a" is missing from this backup: internal error: boom`,
		},
		"when an action is prepared": {
			action: outside{choose: func(context.Context, itemaction.ResourceResolver) error { panic("boom") }},
			want:   []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"}, wantError: "item action: internal error: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, lines := logOf()
			result, got := backedUp(t, testCluster(), ArchiveRequest{Actions: []itemaction.BackupAction{tc.action}, Selection: selection.Spec{
				IncludedNamespaces: []string{"shop"}, IncludedResources: []string{"configmaps"},
			}}, Options{Log: log})
			if diff := cmp.Diff(tc.want, configMaps(got)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			expectMessage(t, "error", result.Results.Errors, tc.wantError)
			if messages, _ := json.Marshal(result.Results); strings.Contains(string(messages), ".go:") {
				t.Errorf("the results have a stack: %s", messages)
			}
			if !strings.Contains(lines(), "failure_test.go") {
				t.Errorf("the operator's log has no stack: %s", lines())
			}
		})
	}
}

// explodingCluster panics when a kind is listed.
type explodingCluster struct{ Cluster }

func (c explodingCluster) Get(context.Context, rawclient.ResourceKind, string, string) (rawclient.Item, error) {
	panic("boom")
}

func TestWriteArchive_PanicWhileListing(t *testing.T) {
	log, lines := logOf()
	cluster := explodingCluster{testCluster().cluster(t)}
	result, err := New(cluster, Options{Log: log}).WriteArchive(t.Context(), ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	wantError := `persistentvolumes "pv-1", which persistentvolumeclaims shop/data needs, is missing from this backup: internal error: boom`
	if errs := result.Results.Errors.OfCluster(); !slices.Contains(errs, wantError) {
		t.Errorf("errors %q, want %q", errs, wantError)
	}
	if !strings.Contains(lines(), "failure_test.go") {
		t.Errorf("the operator's log has no stack: %s", lines())
	}
}

// explodingWriter panics when the archive is written.
type explodingWriter struct{}

func (explodingWriter) Write([]byte) (int, error) { panic(errors.New("boom")) }

func TestWriteArchive_PanicWhileWriting(t *testing.T) {
	_, err := New(testCluster().cluster(t), Options{}).WriteArchive(t.Context(), ArchiveRequest{}, explodingWriter{})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Run: %v, want the panic as an error", err)
	}
}

// An object that cannot be read is an error of that object, if it is selected at all.
func TestWriteArchive_RefusedObject(t *testing.T) {
	const deep = `{"metadata":{"name":"deep","namespace":"NAMESPACE","labels":LABELS},"data":BROKEN}`
	for name, tc := range map[string]struct {
		namespace, labels string
		wantError         string
	}{
		"selected":                            {namespace: "shop", labels: `{}`, wantError: `configmaps "shop/deep" is missing from this backup: it cannot be read: `},
		"in a namespace that is not":          {namespace: "office", labels: `{}`},
		"that a label keeps out":              {namespace: "shop", labels: `{"grapnel.dev/exclude-from-backup":"true"}`},
		"with labels that are broken as well": {namespace: "shop", labels: `{"a":}`, wantError: `configmaps "shop/deep"`},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.NewReplacer("NAMESPACE", tc.namespace, "LABELS", tc.labels).Replace(deep)
			api := testCluster()
			api.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/configmaps") {
					return false
				}
				_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"100"},"items":[{"metadata":{"name":"a","namespace":"shop"}},`+broken+
					`,{"metadata":{"name":"c","namespace":"shop"}}]}`)
				return true
			}
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{
				IncludedNamespaces: []string{"shop", "empty"}, IncludedResources: []string{"configmaps"},
			}}, Options{})
			if diff := cmp.Diff([]string{"configmaps shop/a", "configmaps shop/c"}, configMaps(got)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			expectMessage(t, "error", result.Results.Errors, tc.wantError)
		})
	}
}

func TestWriteArchive_PanicWhileCollecting(t *testing.T) {
	_, err := New(testCluster().cluster(t), Options{Actions: func() []itemaction.BackupAction { panic("boom") }}).WriteArchive(t.Context(), ArchiveRequest{}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "internal error: boom") {
		t.Errorf("Run: %v, want the panic as an error", err)
	}
}

// TestSelect_Panic selects objects without a plan.
func TestSelect_Panic(t *testing.T) {
	c := &collection{enginePass: &enginePass{}}
	for name, selects := range map[string]func(*rawclient.Item) (bool, error){"an object": c.reserveIfSelected, "one that cannot be read": c.shouldArchive} {
		if selected, err := selects(&rawclient.Item{Namespace: "shop"}); selected || !errors.As(err, new(*panics.Error)) {
			t.Errorf("%s is selected: %t, %v; want the panic as its error", name, selected, err)
		}
	}
}
