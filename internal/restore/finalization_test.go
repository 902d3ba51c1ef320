// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// starting is an engine whose actions start operations.
type starting struct {
	engine
	operations []itemaction.Operation
	err        error
}

// RestoreObjects implements restore.ObjectRestorer.
func (s starting) RestoreObjects(ctx context.Context, req restore.Request) (restore.Result, error) {
	made, err := s.engine.RestoreObjects(ctx, req)
	for _, op := range s.operations {
		if req.OnOperationStarted(ctx, op) == nil {
			made.Operations = append(made.Operations, op)
		}
	}
	if s.err != nil {
		made.Counts, err = nil, s.err
	}
	return made, err
}

func TestRestore_OperationCount(t *testing.T) {
	for name, fails := range map[string]error{"a good one": nil, "one that failed at once": errors.New("gone")} {
		t.Run(name, func(t *testing.T) {
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			j.Engine = starting{operations: []itemaction.Operation{{ID: "op-1"}, {ID: "full"}, {ID: "op-2"}}, err: fails}
			req := request
			var told []string
			req.OnOperationStarted = func(_ context.Context, op itemaction.Operation) error {
				if op.ID == "full" {
					return errors.New("no space")
				}
				told = append(told, op.ID)
				return nil
			}
			objects := storeWithBackup(t, 0, nil)
			made, err := j.Restore(t.Context(), storage.New(objects, ""), req)
			if !errors.Is(err, fails) || made.Operations != 2 {
				t.Errorf("%d operations, error %v", made.Operations, err)
			}
			if diff := cmp.Diff([]string{"op-1", "op-2"}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// operation is one of an object in a phase.
func operation(id, resource, namespace, name string, phase velero.OperationPhase, message string) velero.Operation {
	return velero.Operation{
		Action: "example.io/copy", Kind: "AsyncRestoreItemAction", Plugin: "demo", ID: id, Phase: phase, Message: message,
		Object: velero.ResourceIdentifier{GroupResource: schema.GroupResource{Resource: resource}, Namespace: namespace, Name: name},
	}
}

// ended are operations that completed, and others that failed.
func ended() []velero.Operation {
	return []velero.Operation{
		operation("op-1", "configmaps", "shop", "c000", velero.OperationCompleted, "after 3s"),
		operation("op-2", "configmaps", "shop", "c001", velero.OperationFailed, "no space left"),
		operation("op-3", "persistentvolumes", "", "pv", velero.OperationCancelled, "the run ended"),
		operation("op-4", "configmaps", "office", "c", velero.OperationFailed, ""),
	}
}

// restoredIn restores into a store.
func restoredIn(t *testing.T, j *restore.Runner, objects objectstore.Store) *storage.Store {
	t.Helper()
	store := storage.New(objects, "")
	if _, err := j.Restore(t.Context(), store, request); err != nil {
		t.Fatal(err)
	}
	return store
}

// wantEnded checks what the store contains about ended operations.
func wantEnded(t *testing.T, objects objectstore.Store, ended []velero.Operation, errs results.Problems) {
	t.Helper()
	var found struct {
		results.Results
		Versions map[string]any      `json:"versions"`
		Actions  map[string][]string `json:"actions"`
	}
	read(t, objects, "-results.gz", &found)
	if diff := cmp.Diff(errs, found.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if found.Warnings.OfRun()[0] != "from before" || len(found.Warnings.OfNamespace("shop")) != 1 || len(found.Versions) != 1 || len(found.Actions) != 1 {
		t.Errorf("the rest of the results is not what it was: %+v", found)
	}
	var operations []velero.RestoreOperation
	read(t, objects, "-itemoperations.json.gz", &operations)
	if diff := cmp.Diff(velero.ToRestoreOperations("again", "u-1", ended), operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	log := storedLog(t, objects)
	for _, op := range ended {
		if !strings.Contains(log, "An operation ended") || !strings.Contains(log, op.ID) || !strings.Contains(log, "phase="+string(op.Phase)) {
			t.Errorf("the stored log does not tell of %s:\n%s", op.ID, log)
		}
	}
	var resources map[string][]string
	read(t, objects, "-resource-list.json.gz", &resources)
	if diff := cmp.Diff(list(), resources); diff != "" {
		t.Errorf("resource list (-want +got):\n%s", diff)
	}
}

const ofEngine = "configmaps c001: exceeded quota"

// engineErrors are those of the engine.
func engineErrors() results.Problems {
	return results.Problems{{Subject: results.Subject{Resource: "configmaps", Namespace: "shop", Name: "c001"}, Reason: "Forbidden", Message: ofEngine}}
}

// allErrors are those of the engine and of ended.
func allErrors() results.Problems {
	const by = " of action example.io/copy of plugin demo "
	failed := func(resource, namespace, name, message string) results.Problem {
		return results.Problem{
			Subject: results.Subject{Resource: resource, Namespace: namespace, Name: name},
			Reason:  results.ReasonOperationFailed, Message: message,
		}
	}
	return append(engineErrors(),
		failed("persistentvolumes", "", "pv", `persistentvolumes "pv": the operation "op-3"`+by+"was canceled: the run ended"),
		failed("configmaps", "office", "c", `configmaps "office/c": the operation "op-4"`+by+"failed"),
		failed("configmaps", "shop", "c001", `configmaps "shop/c001": the operation "op-2"`+by+"failed: no space left"),
	)
}

// storedLog returns the log in the store.
func storedLog(t *testing.T, objects objectstore.Store) string {
	t.Helper()
	stored, err := objects.Get(t.Context(), "restores/again/restore-again-logs.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stored.Close() }()
	uncompressed, err := gzip.NewReader(stored)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(uncompressed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFinalize returns the same for every call, and stores the latest operations.
func TestFinalize(t *testing.T) {
	objects := storeWithBackup(t, 0, nil)
	var waited []time.Duration
	j := operator(t, t.TempDir(), &waited)
	store := restoredIn(t, j, objects)
	var none []any
	if read(t, objects, "-itemoperations.json.gz", &none); none == nil || len(none) > 0 {
		t.Errorf("operations before any ended: %v", none)
	}
	for _, step := range []struct {
		name  string
		ended []velero.Operation
		lost  int
		added int
		errs  results.Problems
	}{
		{"first", ended(), 0, 3, allErrors()},
		{"again", ended(), 0, 3, allErrors()},
		{"all well", ended()[:1], 0, 0, engineErrors()},
		{"after all", ended(), 0, 3, allErrors()},
		{"none", nil, 0, 0, engineErrors()},
		{"two removed by force", ended()[:1], 2, 1, append(engineErrors(), results.Problem{
			Reason: results.ReasonOperationLost,
			Message: "2 of 3 operations were deleted without their finalizer; their outcome is unknown: " +
				"check the outcome in the system of the plugin",
		})},
	} {
		req := request
		req.Operations = len(step.ended) + step.lost
		added, err := j.Finalize(t.Context(), store, req, step.ended)
		if err != nil || added != step.added {
			t.Errorf("%s: %d errors added, want %d: %v", step.name, added, step.added, err)
		}
		wantEnded(t, objects, step.ended, step.errs)
	}
}

// veleroResult is a part of the file as Velero's client reads it.
type veleroResult struct {
	Velero     []string            `json:"velero"`
	Cluster    []string            `json:"cluster"`
	Namespaces map[string][]string `json:"namespaces"`
}

// TestResultsFile_VeleroFormat reads all parts as Velero's client does.
func TestResultsFile_VeleroFormat(t *testing.T) {
	objects := storeWithBackup(t, 0, nil)
	var waited []time.Duration
	j := operator(t, t.TempDir(), &waited)
	store := restoredIn(t, j, objects)
	for range 2 {
		var found map[string]veleroResult
		read(t, objects, "-results.gz", &found)
		if len(found["warnings"].Namespaces["shop"]) != 1 || found["errors"].Namespaces["shop"][0] != ofEngine {
			t.Errorf("found %+v", found)
		}
		if _, err := j.Finalize(t.Context(), store, request, ended()); err != nil {
			t.Fatal(err)
		}
	}
}

// nth is a store that fails at one write of a file of a restore.
type nth struct {
	objectstore.Store
	left int
}

// Put implements objectstore.Store.
func (n *nth) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if n.left--; n.left == 0 {
		return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Kind: objectstore.ErrUnavailable}
	}
	return n.Store.Put(ctx, key, r, opts)
}

// TestFinalize_FailedWrites, and ends like an undisturbed run.
func TestFinalize_FailedWrites(t *testing.T) {
	const writes = 3
	for fails := range writes {
		t.Run(fmt.Sprintf("write %d", fails+1), func(t *testing.T) {
			objects := &nth{Store: storeWithBackup(t, 0, nil)}
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			store := restoredIn(t, j, objects)
			objects.left = fails + 1
			if added, err := j.Finalize(t.Context(), store, request, ended()); !errors.Is(err, objectstore.ErrUnavailable) || added != 0 {
				t.Errorf("%d errors added: %v", added, err)
			}
			objects.left = -1
			if added, err := j.Finalize(t.Context(), store, request, ended()); err != nil || added != 3 {
				t.Errorf("%d errors added: %v", added, err)
			}
			wantEnded(t, objects, ended(), allErrors())
			if puts := -1 - objects.left; puts != writes {
				t.Errorf("it wrote %d times, and %d were tried out", puts, writes)
			}
		})
	}
}

// TestFinalize_PendingReport: a store that was full when the objects were restored, and
// no longer is when the operations have ended, gets everything.
func TestFinalize_PendingReport(t *testing.T) {
	objects, dir := storeWithBackup(t, 1000, objectstore.ErrNoSpace), t.TempDir()
	var waited []time.Duration
	store := storage.New(objects, "")
	if _, err := operator(t, dir, &waited).Restore(t.Context(), store, request); !errors.Is(err, restore.ErrResultsNotStored) {
		t.Fatal(err)
	}
	j := operator(t, dir, &waited)
	if _, err := j.Finalize(t.Context(), store, request, ended()); !errors.Is(err, objectstore.ErrNoSpace) {
		t.Fatalf("Finalize in a full store: %v", err)
	}
	objects.left.Store(0)
	for range 2 {
		if added, err := j.Finalize(t.Context(), store, request, ended()); err != nil || added != restore.OperationFailures(ended(), len(ended())).ErrorCount {
			t.Fatalf("%d errors added: %v", added, err)
		}
		wantEnded(t, objects, ended(), allErrors())
	}
}

// TestFinalize_OtherOperator finalizes with nothing but the store.
func TestFinalize_OtherOperator(t *testing.T) {
	objects := storeWithBackup(t, 0, nil)
	var waited []time.Duration
	store := restoredIn(t, operator(t, t.TempDir(), &waited), objects)
	before := storedLog(t, objects)
	if _, err := operator(t, t.TempDir(), &waited).Finalize(t.Context(), store, request, ended()); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, objects, ended(), allErrors())
	after := storedLog(t, objects)
	if !strings.HasPrefix(after, before) || !strings.Contains(before, "Restoring objects") {
		t.Errorf("the log lost its beginning:\n%s", after)
	}
}

// TestFinalize_RestartedOperator repeats no line of the log that it had stored.
func TestFinalize_RestartedOperator(t *testing.T) {
	objects, scratch := storeWithBackup(t, 0, nil), t.TempDir()
	var waited []time.Duration
	store := restoredIn(t, operator(t, scratch, &waited), objects)
	restarted := operator(t, scratch, &waited)
	for calls := range 3 {
		if _, err := restarted.Finalize(t.Context(), store, request, ended()); err != nil {
			t.Fatal(err)
		}
		log := storedLog(t, objects)
		if n := strings.Count(log, "Restoring objects"); n != 1 {
			t.Errorf("the log begins %d times:\n%s", n, log)
		}
		if n := strings.Count(log, "Storing the outcome of operations"); n != calls+1 {
			t.Errorf("after %d calls the log tells of %d:\n%s", calls+1, n, log)
		}
	}
}

// TestFinalize_UnreadableResults: nothing in the store is changed.
func TestFinalize_UnreadableResults(t *testing.T) {
	zip := func(text string) string {
		var out strings.Builder
		w := gzip.NewWriter(&out)
		_, err := io.WriteString(w, text)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const results = "restores/again/restore-again-results.gz"
	for name, tc := range map[string]struct {
		stored *string
		want   string
	}{
		"they are missing":            {nil, "cannot be read back"},
		"they are not compressed":     {new("{}"), "the results of restore \"again\" are damaged"},
		"they are cut off":            {new(zip(`{"restore":{"uid":"u-1"}}`)[:20]), "the results of restore \"again\" are damaged"},
		"they are no JSON":            {new(zip("sorry")), "the results of restore \"again\" are damaged"},
		"they are of another restore": {new(zip(`{"restore":{"uid":"u-2"}}`)), `those of another restore that is called "again", too`},
		"they are of Velero":          {new(zip(`{"warnings":{},"errors":{}}`)), `those of another restore that is called "again", too`},
	} {
		t.Run(name, func(t *testing.T) {
			objects := storeWithBackup(t, 0, nil)
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			store := restoredIn(t, j, objects)
			var err error
			if tc.stored == nil {
				err = objects.Delete(t.Context(), results)
			} else {
				_, err = objects.Put(t.Context(), results, strings.NewReader(*tc.stored), objectstore.PutOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			added, err := j.Finalize(t.Context(), store, request, ended())
			if err == nil || !strings.Contains(err.Error(), tc.want) || added != 0 {
				t.Errorf("%d errors added: %v, want %q", added, err, tc.want)
			}
			var operations []json.RawMessage
			if read(t, objects, "-itemoperations.json.gz", &operations); len(operations) > 0 {
				t.Errorf("operations were stored: %s", operations)
			}
			// The reason is stored although nothing else is known.
			if err := j.Abandon(t.Context(), store, request, "it was not stored"); err != nil {
				t.Error(err)
			}
			var found map[string]struct{ Velero []string }
			read(t, objects, "-results.gz", &found)
			if diff := cmp.Diff([]string{"it was not stored"}, found["errors"].Velero); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// silent is a store whose files cannot be read to their end.
type silent struct{ objectstore.Store }

// Get implements objectstore.Store.
func (s silent) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	file, err := s.Store.Get(ctx, key)
	if err != nil || !strings.HasPrefix(key, "restores/") {
		return file, err
	}
	_ = file.Close()
	return io.NopCloser(io.MultiReader(strings.NewReader("\x1f\x8b"), stalled{})), nil
}

// stalled is a connection that ended.
type stalled struct{}

// Read implements io.Reader.
func (stalled) Read([]byte) (int, error) { return 0, objectstore.ErrUnavailable }

// TestFinalize_StoreUnavailable: stored results are not given up.
func TestFinalize_StoreUnavailable(t *testing.T) {
	objects := storeWithBackup(t, 0, nil)
	var waited []time.Duration
	j := operator(t, t.TempDir(), &waited)
	restoredIn(t, j, objects)
	store := storage.New(silent{objects}, "")
	if _, err := j.Finalize(t.Context(), store, request, ended()); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("Finalize: %v", err)
	}
	if err := j.Abandon(t.Context(), store, request, "it was canceled"); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("Abandon: %v", err)
	}
	tellsAll(t, objects)
}

// TestAbandon_RunningOperations: the outcomes of the objects stay in the store, also if
// another operator stores the reason, and so do those of operations.
func TestAbandon_RunningOperations(t *testing.T) {
	for name, another := range map[string]bool{"by the same operator": false, "by another one": true} {
		t.Run(name, func(t *testing.T) {
			objects := storeWithBackup(t, 0, nil)
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			store := restoredIn(t, j, objects)
			if another {
				j = operator(t, t.TempDir(), &waited)
			}
			for range 2 {
				if err := j.Abandon(t.Context(), store, request, "it was canceled"); err != nil {
					t.Fatal(err)
				}
				tellsAll(t, objects, "it was canceled")
			}
			log := storedLog(t, objects)
			if !strings.Contains(log, "Restoring objects") || !strings.Contains(log, `reason="it was canceled"`) {
				t.Errorf("log:\n%s", log)
			}
			if _, err := j.Finalize(t.Context(), store, request, ended()); err != nil {
				t.Fatal(err)
			}
			if err := j.Abandon(t.Context(), store, request, "it was canceled"); err != nil {
				t.Fatal(err)
			}
			errs := allErrors()
			errs = slices.Insert(errs, 1, results.Problem{Reason: results.ReasonFailed, Message: "it was canceled"})
			wantEnded(t, objects, ended(), errs)
			if err := objects.Delete(t.Context(), "restores/again/restore-again-resource-list.json.gz"); err != nil {
				t.Fatal(err)
			}
			if err := j.Abandon(t.Context(), store, request, "it was canceled"); err != nil {
				t.Fatal(err)
			}
			var resources map[string][]string
			if read(t, objects, "-resource-list.json.gz", &resources); resources == nil || len(resources) > 0 {
				t.Errorf("resource list %v", resources)
			}
		})
	}
}
