// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tarball "github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// operator is an engine whose actions start operations on the config maps a and b.
type operator struct {
	// fail ends a run with Only.
	fail func() error
	// none has nothing to archive again, and version is the preferred one by then.
	none    bool
	version string
	// got is the request of the last run.
	got backup.ArchiveRequest
}

// configMap is the place of one in the archive.
func configMap(version, name string) tarball.Identity {
	return tarball.Identity{Version: version, Preferred: true, Resource: "configmaps", Namespace: "shop", Name: name}
}

// WriteArchive implements backup.ArchiveWriter.
func (o *operator) WriteArchive(ctx context.Context, req backup.ArchiveRequest, w io.Writer) (backup.ArchiveResult, error) {
	o.got = req
	out, err := tarball.NewWriter(w, tarball.WriterOptions{ModTime: req.StartTime})
	if err != nil {
		return backup.ArchiveResult{}, err
	}
	run := o.first
	if len(req.OnlyItems) > 0 {
		run = o.again
	}
	result, err := run(ctx, req, out)
	return result, errors.Join(err, out.Close())
}

func (o *operator) first(ctx context.Context, req backup.ArchiveRequest, out *tarball.Writer) (backup.ArchiveResult, error) {
	result := backup.ArchiveResult{
		ResourceList: map[string][]string{"v1/ConfigMap": {"shop/a", "shop/b", "shop/n"}}, Labels: map[string]string{"tier": "gold"},
		Actions: map[string][]string{"configmaps": {"example.io/copy"}}, Items: 3,
		Results: results.Results{
			Warnings: newProblems(results.Subject{Namespace: "shop"}, "it is old"), WarningCount: 1,
		},
	}
	for _, name := range []string{"a", "b", "n"} {
		if err := out.AddObject(tarball.Item{Identity: configMap("v1", name), JSON: []byte(`{"old":"` + name + `"}`)}); err != nil {
			return result, err
		}
	}
	for _, name := range []string{"a", "b"} {
		op := itemaction.Operation{Action: "example.io/copy", Plugin: "demo", ID: "op-" + name, Namespace: "shop", Name: name}
		if err := req.OnOperationStarted(ctx, op); err != nil {
			return result, err
		}
		result.Operations = append(result.Operations, op)
	}
	return result, nil
}

func (o *operator) again(_ context.Context, req backup.ArchiveRequest, out *tarball.Writer) (backup.ArchiveResult, error) {
	result := backup.ArchiveResult{
		ResourceList: map[string][]string{}, Labels: map[string]string{"tier": "tin", "copied": "yes"},
		Actions: map[string][]string{"configmaps": {"example.io/mark"}},
		Results: results.Results{
			Warnings:     newProblems(results.Subject{Namespace: "shop"}, "it is new", "it is old"),
			WarningCount: 2,
		},
	}
	if o.fail != nil {
		return result, o.fail()
	}
	if o.none {
		return result, nil
	}
	for _, ref := range req.OnlyItems {
		result.Items++
		result.ResourceList["v1/ConfigMap"] = append(result.ResourceList["v1/ConfigMap"], "shop/"+ref.Name)
		item := tarball.Item{Identity: configMap(o.preferred(), ref.Name), JSON: []byte(`{"new":"` + ref.Name + `"}`)}
		if err := out.AddObject(item); err != nil {
			return result, err
		}
	}
	return result, nil
}

func (o *operator) preferred() string {
	if o.version != "" {
		return o.version
	}
	return "v1"
}

// withOperations is the request of a backup whose operations are recorded.
func withOperations(edits ...func(*backup.Request)) backup.Request {
	req := request(edits...)
	req.OnOperationStarted = func(context.Context, itemaction.Operation) error { return nil }
	return req
}

// copied is an operation on a config map that has ended.
func copied(name string, phase velero.OperationPhase, post ...string) velero.Operation {
	object := func(name string) velero.ResourceIdentifier {
		return velero.ResourceIdentifier{GroupResource: schema.GroupResource{Resource: "configmaps"}, Namespace: "shop", Name: name}
	}
	op := velero.Operation{
		Action: "example.io/copy", Kind: "AsyncBackupItemAction", Plugin: "demo", ID: "op-" + name, Object: object(name),
		Phase: phase, Message: "so it is",
	}
	for _, name := range post {
		op.PostItems = append(op.PostItems, object(name))
	}
	return op
}

// completed are operations that succeeded. The first one requests the config map b again,
// and two new ones.
// warned returns an operation with a warning.
func warned(op velero.Operation) velero.Operation {
	op.Warning = "taken within 2s"
	return op
}

func completed() []velero.Operation {
	return []velero.Operation{
		copied("a", velero.OperationCompleted, "z", "b", "c"), copied("b", velero.OperationCompleted, "b"),
	}
}

// waiting archives and returns the job while the operations are in progress.
func waiting(t *testing.T, objects objectstore.Store, o *operator) *backup.Runner {
	t.Helper()
	j := worker(t, t.TempDir(), o)
	j.Scratch = &scratch.Dir{Path: t.TempDir()}
	if err := j.Claim(t.Context(), open(objects), withOperations()); err != nil {
		t.Fatal(err)
	}
	got, err := j.Archive(t.Context(), open(objects), withOperations())
	if err != nil {
		t.Fatal(err)
	}
	want := backup.Result{
		Items: 3, Warnings: 1, Bytes: got.Bytes, Completed: ended, Labels: map[string]string{"tier": "gold"}, Operations: 2,
		Problems: results.Results{Warnings: newProblems(results.Subject{Namespace: "shop"}, "it is old")},
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Bytes == 0 {
		t.Fatalf("result with operations (-want +got):\n%s", diff)
	}
	return j
}

func TestArchive_WithOperations(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	o := &operator{}
	j := waiting(t, objects, o)
	wantFiles(t, objects, "nightly-grapnel-draft.json.gz", "nightly-logs.gz", "nightly.tar.gz")
	if _, err := j.FindCommitted(t.Context(), open(objects), withOperations()); err == nil {
		t.Error("it is a backup before its operations have ended")
	}
	if err := j.Abandon(t.Context(), open(objects), withOperations(), "the run was canceled"); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
}

// archived returns the content of the config maps in the archive, by name.
func archived(t *testing.T, objects objectstore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := tarball.Walk(strings.NewReader(content(t, objects, "nightly.tar.gz")), tarball.Limits{}, func(e tarball.Entry) error {
		if e.IsObject() && e.Object.Version != "" {
			out[e.Object.Name] = string(e.Content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFinalize(t *testing.T) {
	t.Parallel()
	old := map[string]string{"a": `{"old":"a"}`, "b": `{"old":"b"}`, "n": `{"old":"n"}`}
	const failure = `configmaps "shop/a": the operation "op-a" of action example.io/copy of plugin demo `
	for name, tc := range map[string]struct {
		operator operator
		limits   tarball.Limits
		ended    []velero.Operation
		only     []string
		archive  map[string]string
		list     string
		results  string
		status   string
		want     backup.Result
	}{
		"that left nothing behind": {
			ended:   []velero.Operation{copied("a", velero.OperationCompleted), copied("b", velero.OperationCompleted)},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old"]}},"errors":{},"actions":{"configmaps":["example.io/copy"]}}`,
			status: `"phase":"Completed","warnings":1,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 3, Warnings: 1, Labels: map[string]string{"tier": "gold"}},
		},
		"that have the same warning": {
			ended:   []velero.Operation{warned(copied("a", velero.OperationCompleted)), warned(copied("b", velero.OperationCompleted))},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old",` + quoted(`configmaps of namespace "shop": taken within 2s`) + `]}},"errors":{},
				"actions":{"configmaps":["example.io/copy"]}}`,
			status: `"phase":"Completed","warnings":2,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 3, Warnings: 2, Labels: map[string]string{"tier": "gold"}},
		},
		"that left objects behind": {
			ended: completed(), only: []string{"z", "b", "c"},
			archive: map[string]string{"a": `{"old":"a"}`, "b": `{"new":"b"}`, "c": `{"new":"c"}`, "n": `{"old":"n"}`, "z": `{"new":"z"}`},
			list:    `{"v1/ConfigMap":["shop/a","shop/b","shop/c","shop/n","shop/z"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old","it is new"]}},"errors":{},
				"actions":{"configmaps":["example.io/copy","example.io/mark"]}}`,
			status: `"phase":"Completed","warnings":2,"progress":{"totalItems":5,"itemsBackedUp":5},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 5, Warnings: 2, Labels: map[string]string{"tier": "gold", "copied": "yes"}},
		},
		"whose objects are gone": {
			operator: operator{none: true}, ended: completed(), only: []string{"z", "b", "c"},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old","it is new"]}},"errors":{},
				"actions":{"configmaps":["example.io/copy","example.io/mark"]}}`,
			status: `"phase":"Completed","warnings":2,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 3, Warnings: 2, Labels: map[string]string{"tier": "gold", "copied": "yes"}},
		},
		"that failed": {
			ended:   []velero.Operation{warned(copied("a", velero.OperationFailed, "c")), copied("b", velero.OperationCompleted)},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old"]}},"actions":{"configmaps":["example.io/copy"]},
				"errors":{"namespaces":{"shop":[` + quoted(failure+"failed: so it is") + `]}}}`,
			status: `"phase":"PartiallyFailed","warnings":1,"errors":1,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":1,"backupItemOperationsFailed":1`,
			want: backup.Result{Items: 3, Warnings: 1, Errors: 1, Labels: map[string]string{"tier": "gold"}},
		},
		"that was canceled, and one that is lost": {
			ended:   []velero.Operation{copied("a", velero.OperationCancelled)},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old"]}},"actions":{"configmaps":["example.io/copy"]},
				"errors":{"velero":["1 of the 2 operations that item actions started are no longer known: check their outcome in the systems of the plugins"],
				"namespaces":{"shop":[` + quoted(failure+"was canceled: so it is") + `]}}}`,
			status: `"phase":"PartiallyFailed","warnings":1,"errors":2,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsFailed":2`,
			want: backup.Result{Items: 3, Warnings: 1, Errors: 2, Labels: map[string]string{"tier": "gold"}},
		},
		"after an upgrade of the API server": {
			operator: operator{version: "v2"}, ended: completed(), only: []string{"z", "b", "c"},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old","it is new"]}},"actions":{"configmaps":["example.io/copy"]},
				"errors":{"velero":["the results of operations are missing from this backup: ` +
				`the API server prefers other versions than when the objects were archived; back up again"]}}`,
			status: `"phase":"PartiallyFailed","warnings":2,"errors":1,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 3, Warnings: 2, Errors: 1, Labels: map[string]string{"tier": "gold"}},
		},
		"that would make the archive larger than a Restore takes": {
			limits: tarball.Limits{Entries: 8}, ended: completed(), only: []string{"z", "b", "c"},
			archive: old, list: `{"v1/ConfigMap":["shop/a","shop/b","shop/n"]}`,
			results: `{"warnings":{"namespaces":{"shop":["it is old","it is new"]}},"actions":{"configmaps":["example.io/copy"]},
				"errors":{"velero":["the results of operations are missing from this backup: ` +
				`no Restore would accept an archive that includes them (archive exceeds limit: more than 8 files); back up fewer objects, or raise --max-archive-size"]}}`,
			status: `"phase":"PartiallyFailed","warnings":2,"errors":1,"progress":{"totalItems":3,"itemsBackedUp":3},
				"backupItemOperationsAttempted":2,"backupItemOperationsCompleted":2`,
			want: backup.Result{Items: 3, Warnings: 2, Errors: 1, Labels: map[string]string{"tier": "gold"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, o := memory.New(), tc.operator
			j := waiting(t, objects, &o)
			j.Limits = tc.limits
			got, err := j.Finalize(t.Context(), open(objects), withOperations(), tc.ended)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Completed, tc.want.Bytes = ended, int64(len(content(t, objects, "nightly.tar.gz")))
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(backup.Result{}, "Problems")); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			var stored results.Results
			if err := json.Unmarshal([]byte(unzipped(t, objects, "nightly-results.gz")), &stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored, got.Problems); diff != "" {
				t.Errorf("problems of the result (-stored +got):\n%s", diff)
			}
			var only []string
			for _, ref := range o.got.OnlyItems {
				only = append(only, ref.Name)
			}
			if diff := cmp.Diff(tc.only, only); diff != "" {
				t.Errorf("archived again (-want +got):\n%s", diff)
			}
			wantFiles(t, objects, complete()...)
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.archive, archived(t, objects)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			for file, want := range map[string]string{"nightly-resource-list.json.gz": tc.list, "nightly-results.gz": tc.results} {
				if diff := cmp.Diff(decode(t, want), veleroPart(decode(t, unzipped(t, objects, file)))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
			status := `{"version":1,"formatVersion":"1.1.0","startTimestamp":"2026-11-21T04:00:00Z","completionTimestamp":"2026-11-21T04:01:30Z",` + tc.status + `}`
			manifest, _ := decode(t, content(t, objects, "velero-backup.json")).(map[string]any)
			if diff := cmp.Diff(decode(t, status), manifest["status"]); diff != "" {
				t.Errorf("status for Velero (-want +got):\n%s", diff)
			}
		})
	}
}

// veleroPart returns a results file without what Velero does not have.
func veleroPart(file any) any {
	parts, _ := file.(map[string]any)
	for _, severity := range []string{"warnings", "errors"} {
		if part, ok := parts[severity].(map[string]any); ok {
			delete(part, "problems")
		}
	}
	return file
}

// quoted returns a text as JSON.
func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

func TestFinalize_VeleroOperations(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j := waiting(t, objects, &operator{})
	operations := []velero.Operation{copied("a", velero.OperationCompleted, "c"), copied("b", velero.OperationCancelled)}
	if _, err := j.Finalize(t.Context(), open(objects), withOperations(), operations); err != nil {
		t.Fatal(err)
	}
	want := `[
		{"spec":{"backupName":"nightly","backupUID":"u-1","backupItemAction":"example.io/copy","operationID":"op-a",
			"resourceIdentifier":{"Group":"","Resource":"configmaps","Namespace":"shop","Name":"a"},
			"postOperationItems":[{"Group":"","Resource":"configmaps","Namespace":"shop","Name":"c"}]},
			"status":{"phase":"Completed"}},
		{"spec":{"backupName":"nightly","backupUID":"u-1","backupItemAction":"example.io/copy","operationID":"op-b",
			"resourceIdentifier":{"Group":"","Resource":"configmaps","Namespace":"shop","Name":"b"},"postOperationItems":null},
			"status":{"phase":"Failed","error":"so it is"}}
	]`
	if diff := cmp.Diff(decode(t, want), decode(t, unzipped(t, objects, "nightly-itemoperations.json.gz"))); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

func TestFinalize_Twice(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j := waiting(t, objects, &operator{})
	first, err := j.Finalize(t.Context(), open(objects), withOperations(), completed())
	if err != nil {
		t.Fatal(err)
	}
	before := stable(t, objects)
	// The operator ended before it removed the draft.
	if _, err := open(objects).PutJSON(t.Context(), "nightly", "u-1", storage.Draft, "a draft"); err != nil {
		t.Fatal(err)
	}
	j.Engine = &engine{fail: func(context.Context) error { return errors.New("the engine ran again") }}
	second, err := j.Finalize(t.Context(), open(objects), withOperations(), completed())
	if err != nil {
		t.Fatal(err)
	}
	first.Bytes = 0 // as documented
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("result (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(before, stable(t, objects)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// TestArchive_LeftoverDraft: an operator that ends in the first attempt leaves one.
func TestArchive_LeftoverDraft(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j := waiting(t, objects, &operator{})
	j.Engine = &engine{}
	req := withOperations(func(r *backup.Request) { r.Attempt = 2 })
	if _, err := j.Archive(t.Context(), open(objects), req); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, objects, complete()...)
}

func TestFinalize_NoDraft(t *testing.T) {
	t.Parallel()
	put := func(value any) func(*testing.T, *storage.Store) {
		return func(t *testing.T, s *storage.Store) {
			t.Helper()
			if _, err := s.PutJSON(t.Context(), "nightly", "u-1", storage.Draft, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		damage  func(*testing.T, *storage.Store)
		attempt int32
		want    string
	}{
		"missing": {
			damage: func(t *testing.T, s *storage.Store) {
				t.Helper()
				if err := s.RemoveDraft(t.Context(), "nightly", "u-1"); err != nil {
					t.Fatal(err)
				}
			},
			want: `the draft of backup "nightly" is missing in its storage location; make another backup`,
		},
		"damaged": {
			damage: func(t *testing.T, s *storage.Store) {
				t.Helper()
				if _, err := s.PutFile(t.Context(), "nightly", "u-1", storage.Draft, strings.NewReader("x")); err != nil {
					t.Fatal(err)
				}
			},
			want: `file "nightly-grapnel-draft.json.gz" cannot be read`,
		},
		"no draft":     {damage: put("x"), want: "cannot be read"},
		"of tomorrow":  {damage: put(map[string]any{"version": 2}), want: "has version 2, and only version 1 is supported"},
		"of another":   {damage: put(map[string]any{"version": 1, "backupUID": "u-2"}), want: `is of attempt 0 of the Backup with UID "u-2"`},
		"of attempt 0": {attempt: 1, want: "is of attempt 0 of the Backup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			j := waiting(t, objects, &operator{})
			if tc.damage != nil {
				tc.damage(t, open(objects))
			}
			req := withOperations(func(r *backup.Request) { r.Attempt = tc.attempt })
			_, err := j.Finalize(t.Context(), open(objects), req, completed())
			if !errors.Is(err, backup.ErrNoDraft) || !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("error %v, want ErrNoDraft with %q", err, tc.want)
			}
			if slices.Contains(files(t, objects), "backups/nightly/velero-backup.json") {
				t.Error("there is a manifest")
			}
		})
	}
}
