// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

var (
	begun = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	ended = begun.Add(90 * time.Second)
)

// engine writes the same archive each time, as for a cluster without changes.
type engine struct {
	// warnings and errs are its messages.
	warnings, errs []string
	// fail makes it fail halfway.
	fail func(ctx context.Context) error
	// actions were called, and labels are those that they add to the Backup.
	actions map[string][]string
	labels  map[string]string
	// missing are namespaces that do not exist.
	missing []string
	// got is the request of the last run.
	got backup.ArchiveRequest
}

// newProblems returns problems with these messages.
func newProblems(about results.Subject, messages ...string) (problems results.Problems) {
	for _, message := range messages {
		problems = append(problems, results.Problem{Subject: about, Reason: "Told", Message: message})
	}
	return problems
}

// WriteArchive implements backup.ArchiveWriter.
func (e *engine) WriteArchive(ctx context.Context, req backup.ArchiveRequest, w io.Writer) (backup.ArchiveResult, error) {
	e.got = req
	logr.FromContextOrDiscard(ctx).Info("Reading objects")
	result := backup.ArchiveResult{
		Actions: e.actions, Labels: e.labels, MissingNamespaces: e.missing,
		Items: 3, ResourceList: map[string][]string{"v1/ConfigMap": {"shop/a", "shop/b"}, "v1/Namespace": {"shop"}},
		Results: results.Results{
			Warnings: newProblems(results.Subject{}, e.warnings...), WarningCount: len(e.warnings),
			Errors: newProblems(results.Subject{Resource: "nodes", Name: "n"}, e.errs...), ErrorCount: len(e.errs),
		},
	}
	if _, err := io.WriteString(w, strings.Repeat("half of the archive ", 5000)); err != nil {
		return result, err
	}
	if e.fail != nil {
		return result, e.fail(ctx)
	}
	_, err := io.WriteString(w, "and the rest")
	return result, err
}

// request is what the Backup's controller requests.
func request(edits ...func(*backup.Request)) backup.Request {
	req := backup.Request{
		Name: "nightly", Namespace: "grapnel-system", UID: "u-1",
		Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"why": "because"},
		Spec:   json.RawMessage(`{"includedNamespaces":["shop"],"ttl":"720h0m0s"}`),
		Object: json.RawMessage(`{"kind":"Backup","spec":{}}`), StorageLocation: "main",
		Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}, AllVersions: true, Start: begun,
		Outputs: map[string]map[string]string{"example.io/freeze": {"replicas": "3"}},
	}
	for _, edit := range edits {
		edit(&req)
	}
	return req
}

func ownedBy(uid string) func(*backup.Request) { return func(r *backup.Request) { r.UID = uid } }

// worker is one operator: its scratch directory outlives it.
func worker(t *testing.T, scratch string, e backup.ArchiveWriter) *backup.Runner {
	t.Helper()
	logs, err := runlog.New(scratch, redact.New(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return &backup.Runner{Engine: e, Logs: logs, Now: func() time.Time { return ended }}
}

// files returns the keys of all objects, claims left out.
func files(t *testing.T, objects objectstore.Store) []string {
	t.Helper()
	var keys []string
	for entry, err := range objects.List(context.WithoutCancel(t.Context()), objectstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(entry.Key, "-claim") {
			keys = append(keys, entry.Key)
		}
	}
	return keys
}

func wantFiles(t *testing.T, objects objectstore.Store, names ...string) {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, "backups/nightly/"+name)
	}
	if diff := cmp.Diff(want, files(t, objects)); diff != "" {
		t.Errorf("files of the backup (-want +got):\n%s", diff)
	}
}

// complete are the files of a complete backup.
func complete() []string {
	return []string{
		"nightly-grapnel.json", "nightly-itemoperations.json.gz", "nightly-logs.gz", "nightly-podvolumebackups.json.gz",
		"nightly-resource-list.json.gz", "nightly-results.gz", "nightly-volumeinfo.json.gz", "nightly-volumesnapshots.json.gz",
		"nightly.tar.gz", "velero-backup.json",
	}
}

// content returns a file as stored.
func content(t *testing.T, objects objectstore.Store, name string) string {
	t.Helper()
	r, err := objects.Get(t.Context(), "backups/nightly/"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unzipped returns what a compressed file holds.
func unzipped(t *testing.T, objects objectstore.Store, name string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(content(t, objects, name)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// decode returns JSON as Go values.
func decode(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// open returns the backups in a store.
func open(objects objectstore.Store) *storage.Store { return storage.New(objects, "") }

// afterManifest runs a function once the manifest is written, and loses the reply.
type afterManifest struct {
	objectstore.Store
	do func() error
}

// Put implements objectstore.Store.
func (a *afterManifest) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	info, err := a.Store.Put(ctx, key, r, opts)
	if err == nil && strings.HasSuffix(key, "velero-backup.json") {
		err = a.do()
	}
	return info, err
}

// putContents stores an archive in its own attempt.
func putContents(ctx context.Context, s *storage.Store, name, uid string, r io.Reader) (storage.Digest, error) {
	a, err := s.BeginAttempt(ctx, name, uid)
	if err != nil {
		return storage.Digest{}, err
	}
	return a.PutContents(ctx, r)
}
