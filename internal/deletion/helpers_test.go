// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is known to the redactor of the tests.
const secret = "hunter2-secret"

// fake is an action of a plugin whose behavior a test defines. Actions of a deletion are
// called one after the other, so it needs no lock.
type fake struct {
	name     string
	selector item.Selector
	// resolve, applies and execute may return an error; attempt counts from 1, separately for
	// each object.
	resolve func() error
	applies func(attempt int) error
	execute func(ctx context.Context, name string, attempt int) error

	asked    int
	attempts map[string]int
	// shown are the names of the objects in the order of the calls.
	shown []string
	// last is the last call about an object.
	last struct {
		call           pluginclient.ItemCall
		object, backup []byte
	}
}

// Do implements pluginclient.Connection.
func (f *fake) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{CallID: "call-1", EndsWithContext: true}, nil
}

// AppliesTo implements pluginclient.DeleteItemAction.
func (f *fake) AppliesTo(context.Context, pluginclient.ItemCall) (item.Selector, error) {
	f.asked++
	if f.applies != nil {
		return f.selector, f.applies(f.asked)
	}
	return f.selector, nil
}

// Execute implements pluginclient.DeleteItemAction.
func (f *fake) Execute(ctx context.Context, call pluginclient.ItemCall, object, backup []byte) error {
	var o struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(object, &o); err != nil {
		return err
	}
	name := o.Metadata.Name
	if f.attempts == nil {
		f.attempts = map[string]int{}
	}
	f.attempts[name]++
	attempt := f.attempts[name]
	f.shown = append(f.shown, name)
	f.last.call, f.last.object, f.last.backup = call, bytes.Clone(object), backup
	if f.execute == nil {
		return nil
	}
	return f.execute(ctx, name, attempt)
}

func (f *fake) spec() deletion.Spec {
	if f.name == "" {
		f.name = "example.io/act"
	}
	return deletion.Spec{Name: f.name, Plugin: "acts", Resolve: func() (pluginclient.Connection, pluginclient.DeleteItemAction, error) {
		if f.resolve != nil {
			if err := f.resolve(); err != nil {
				return nil, nil, err
			}
		}
		return f, f, nil
	}}
}

// worker returns the Runner of one operator.
func worker(t *testing.T) *deletion.Runner {
	t.Helper()
	dir := t.TempDir()
	logs, err := runlog.New(dir, redact.New(secret), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Remove("run-1") })
	return &deletion.Runner{Logs: logs, Scratch: &scratch.Dir{Path: dir}}
}

// request returns a request like that of the controller of DeletionRuns.
func request(actions ...*fake) deletion.Request {
	req := deletion.Request{Run: runlog.Run{UID: "run-1"}, Name: "nightly", UID: "u-1", Backup: []byte(`{"kind":"Backup"}`)}
	for _, action := range actions {
		req.Actions = append(req.Actions, action.spec())
	}
	return req
}

// entry is an object to be archived; if content is empty, it is generated.
type entry struct {
	id      archive.Identity
	labels  string
	content string
}

func (e entry) json() []byte {
	if e.content != "" {
		return []byte(e.content)
	}
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q,"labels":{%s}}}`, e.id.Name, e.id.Namespace, e.labels)
}

func pod(name string) entry {
	return entry{id: archive.Identity{Version: "v1", Resource: "pods", Preferred: true, Namespace: "shop", Name: name}, labels: `"app":"` + name + `"`}
}

func volume(name string) entry {
	return entry{id: archive.Identity{Group: "storage.example.io", Version: "v1", Resource: "volumes", Preferred: true, Name: name}}
}

// objects are those of an ordinary backup, not in alphabetical order.
func objects() []entry { return []entry{volume("disk"), pod("web"), pod("db"), pod("cache")} }

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.AddObject(archive.Item{Identity: e.id, JSON: e.json()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// archiveOwnership returns a store with the complete backup "nightly" of u-1.
func archiveOwnership(t *testing.T, contents []byte) objectstore.Store {
	t.Helper()
	objects := memory.New()
	s := storage.New(objects, "")
	if err := s.Claim(t.Context(), "nightly", storage.Claim{BackupUID: "u-1", Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	attempt, err := s.BeginAttempt(t.Context(), "nightly", "u-1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := attempt.PutContents(t.Context(), bytes.NewReader(contents))
	if err != nil {
		t.Fatal(err)
	}
	if err := attempt.Commit(t.Context(), storage.Manifest{
		VeleroBackup: []byte(`{"kind":"Backup","metadata":{"uid":"u-1"}}`),
		Grapnel:      storage.GrapnelManifest{BackupUID: "u-1", Files: map[storage.File]storage.Digest{storage.Contents: digest}},
	}); err != nil {
		t.Fatal(err)
	}
	return objects
}

func put(t *testing.T, objects objectstore.Store, key string, content []byte) {
	t.Helper()
	if _, err := objects.Put(t.Context(), key, bytes.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, objects objectstore.Store) []string {
	t.Helper()
	var all []string
	for e, err := range objects.List(context.WithoutCancel(t.Context()), objectstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Key)
	}
	return all
}

func wantNothing(t *testing.T, objects objectstore.Store) {
	t.Helper()
	if left := keys(t, objects); len(left) > 0 {
		t.Errorf("these files are left: %v", left)
	}
}

func wantShown(t *testing.T, f *fake, names ...string) {
	t.Helper()
	if diff := cmp.Diff(names, f.shown); diff != "" {
		t.Errorf("%s received (-want +got):\n%s", f.name, diff)
	}
}

// wantLeft compares the leftovers, each with a text that it must contain.
func wantLeft(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d things were left behind, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%q was left behind, want something with %q", got[i], want[i])
		}
	}
	if strings.Contains(fmt.Sprint(got), secret) {
		t.Errorf("a secret is exposed: %v", got)
	}
}

// destroy is a whole deletion, as the controller executes it. It returns the results of the
// actions, even if the files could not be removed.
func destroy(ctx context.Context, j *deletion.Runner, objects objectstore.Store, req deletion.Request) (deletion.Result, error) {
	store := storage.New(objects, "")
	result, err := j.CallActions(ctx, store, req)
	if err != nil {
		return result, err
	}
	removed, err := j.RemoveFiles(ctx, store, req)
	result.NameConflict = removed.NameConflict
	return result, err
}

// log returns the log of the run.
func log(t *testing.T, j *deletion.Runner) string {
	t.Helper()
	r, err := j.Logs.OpenReader("run-1", runlog.Main)
	if err != nil || r == nil {
		t.Fatalf("no log: %v", err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
