// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// restored is how many objects there are.
const restored = 500

// list has the outcome of each object.
func list() map[string][]string {
	var names []string
	for i := range restored {
		names = append(names, fmt.Sprintf("shop/c%03d(created)", i))
	}
	return map[string][]string{"v1/ConfigMap": names}
}

// engine restores the same objects each time, one of them with an error.
type engine struct{}

// RestoreObjects implements restore.ObjectRestorer.
func (engine) RestoreObjects(context.Context, restore.Request) (restore.Result, error) {
	var collected results.Collector
	collected.Warn(results.Subject{Resource: "configmaps", Namespace: "shop", Name: "c000"}, results.ReasonItemDiffers, "configmaps c000 differs in data")
	collected.Error(results.Subject{Resource: "configmaps", Namespace: "shop", Name: "c001"}, "Forbidden", errors.New("configmaps c001: exceeded quota"))
	return restore.Result{
		Counts: map[restore.Outcome]int{restore.Created: restored}, Results: collected.Results(), ResourceList: maps.All(list()),
		Choices: map[string]version.Choice{"gadgets.example.io": {Version: "v2", Reason: "it is preferred"}},
		Actions: map[string][]string{"pods": {"grapnel.dev/pod"}},
	}, nil
}

// outage is a store that cannot write some of the next files of restores.
type outage struct {
	objectstore.Store
	left atomic.Int64
	err  error
}

// Put implements objectstore.Store.
func (o *outage) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if strings.HasPrefix(key, "restores/") && o.left.Add(-1) >= 0 {
		return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Kind: o.err}
	}
	return o.Store.Put(ctx, key, r, opts)
}

// storeWithBackup returns a store with a backup as Velero writes it, which fails the given
// number of times.
func storeWithBackup(t *testing.T, failures int64, err error) *outage {
	t.Helper()
	var contents bytes.Buffer
	w, werr := archive.NewWriter(&contents, archive.WriterOptions{})
	if werr = errors.Join(werr, w.Close()); werr != nil {
		t.Fatal(werr)
	}
	o := &outage{Store: memory.New(), err: err}
	for key, data := range map[string]string{
		"backups/nightly/nightly.tar.gz":     contents.String(),
		"backups/nightly/velero-backup.json": `{"status":{"phase":"Completed","formatVersion":"1.1.0"}}`,
	} {
		if _, err := o.Put(t.Context(), key, strings.NewReader(data), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	o.left.Store(failures)
	return o
}

// operator is one process of an operator: its scratch directory outlives it. It records how
// long it waits.
func operator(t *testing.T, dir string, waited *[]time.Duration) *restore.Runner {
	t.Helper()
	logs, err := runlog.New(dir, redact.New(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Remove("u-1") })
	return &restore.Runner{
		Engine: engine{}, Logs: logs, Scratch: &scratch.Dir{Path: dir}, Now: time.Now,
		Wait: func(ctx context.Context, d time.Duration) error {
			*waited = append(*waited, d)
			return ctx.Err()
		},
	}
}

var request = restore.RunRequest{
	Name: "again", Namespace: "grapnel-system", UID: "u-1", BackupName: "nightly", Warnings: []string{"from before"},
}

// read decodes a file of the restore.
func read(t *testing.T, objects objectstore.Store, file string, into any) {
	t.Helper()
	stored, err := objects.Get(t.Context(), "restores/again/restore-again"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stored.Close() }()
	uncompressed, err := gzip.NewReader(stored)
	if err == nil {
		err = json.NewDecoder(uncompressed).Decode(into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tellsAll checks that the store has everything that the engine reported, and the given
// errors of the restore as a whole.
func tellsAll(t *testing.T, objects objectstore.Store, reasons ...string) {
	t.Helper()
	var found struct {
		results.Results
		Versions map[string]version.Choice `json:"versions"`
		Actions  map[string][]string       `json:"actions"`
	}
	read(t, objects, "-results.gz", &found)
	want, _ := engine{}.RestoreObjects(t.Context(), restore.Request{})
	want.Results.Warnings.AddNew(results.Problem{Reason: results.ReasonPlanWarning, Message: "from before"})
	for _, reason := range reasons {
		want.Results.Errors.AddNew(results.Problem{Reason: results.ReasonFailed, Message: reason})
	}
	want.Results.WarningCount, want.Results.ErrorCount = 0, 0 // they are no part of the file
	if diff := cmp.Diff(want.Results, found.Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Choices, found.Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Actions, found.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	var resources map[string][]string
	read(t, objects, "-resource-list.json.gz", &resources)
	if diff := cmp.Diff(list(), resources); diff != "" {
		t.Errorf("resource list (-want +got):\n%s", diff)
	}
}

func TestStoreReportWithRetry(t *testing.T) {
	for failures := range int64(6) {
		t.Run(fmt.Sprintf("after %d failures", failures), func(t *testing.T) {
			objects := storeWithBackup(t, failures, objectstore.ErrUnavailable)
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			made, err := j.Restore(t.Context(), storage.New(objects, ""), request)
			if err != nil || made.Total() != restored {
				t.Errorf("restored %d objects: %v", made.Total(), err)
			}
			tellsAll(t, objects)
			all := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
			if !slices.Equal(waited, all[:failures]) {
				t.Errorf("waited %v, want %v", waited, all[:failures])
			}
		})
	}
}

// TestAbandon_StoreRecovered ends a restore whose store is unavailable for longer than it
// retries, and stores its report when the store is available again.
func TestAbandon_StoreRecovered(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		stop      bool
		restarted bool
		waits     int
	}{
		"the store is silent":                {err: objectstore.ErrUnavailable, waits: 5},
		"the operator is another then":       {err: objectstore.ErrUnavailable, waits: 5, restarted: true},
		"permission is missing":              {err: objectstore.ErrAccess},
		"the store is full":                  {err: objectstore.ErrNoSpace},
		"the run is canceled while it waits": {err: objectstore.ErrUnavailable, stop: true, waits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			objects := storeWithBackup(t, 1000, c.err)
			store, dir := storage.New(objects, ""), t.TempDir()
			var waited []time.Duration
			j := operator(t, dir, &waited)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.stop {
				j.Wait = func(ctx context.Context, d time.Duration) error {
					waited = append(waited, d)
					stop()
					return ctx.Err()
				}
			}
			made, err := j.Restore(ctx, store, request)
			if !errors.Is(err, restore.ErrResultsNotStored) || !errors.Is(err, c.err) || made.Errors != 1 || made.Total() != restored {
				t.Fatalf("restored %d objects, with %d errors: %v", made.Total(), made.Errors, err)
			}
			if len(waited) != c.waits {
				t.Errorf("waited %v, want %d times", waited, c.waits)
			}
			if c.restarted {
				j = operator(t, dir, &waited)
			}
			objects.left.Store(3) // each attempt gets a little further
			for attempt := 1; j.Abandon(t.Context(), store, request, "it was not stored") != nil; attempt++ {
				if attempt > 3 {
					t.Fatal("it is not stored although the store is back")
				}
			}
			tellsAll(t, objects, "it was not stored")
			// It is not recorded yet that it was stored: it may be repeated.
			if err := j.Abandon(t.Context(), store, request, "it was not stored"); err != nil {
				t.Error(err)
			}
			tellsAll(t, objects, "it was not stored")
			killedWhileKeeping(t, dir)
			j.RemoveLocalFiles(request.UID)
			j.Logs.Remove(request.UID)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left in the scratch directory: %v, %v", left, err)
			}
		})
	}
}

// TestStorePendingReport stores, and may do so again, what Restore could not: as if it had
// been stored at once, with a warning that it was not.
func TestStorePendingReport(t *testing.T) {
	for name, restarted := range map[string]bool{"by the same operator": false, "by one after it": true} {
		t.Run(name, func(t *testing.T) {
			objects := storeWithBackup(t, 1000, objectstore.ErrNoSpace)
			store, dir := storage.New(objects, ""), t.TempDir()
			var waited []time.Duration
			j := operator(t, dir, &waited)
			made, err := j.Restore(t.Context(), store, request)
			if !errors.Is(err, restore.ErrResultsNotStored) || !objectstore.IsUnwritable(err) || len(waited) > 0 {
				t.Fatalf("waited %v: %v", waited, err)
			}
			if diff := cmp.Diff(engineErrors(), made.Problems.Errors); diff != "" {
				t.Errorf("first errors (-want +got):\n%s", diff)
			}
			if restarted {
				j = operator(t, dir, &waited)
			}
			if err := j.StorePendingReport(t.Context(), store, request); !objectstore.IsUnwritable(err) {
				t.Fatal(err)
			}
			objects.left.Store(0)
			for range 2 {
				if err := j.StorePendingReport(t.Context(), store, request); err != nil {
					t.Fatal(err)
				}
				var found results.Results
				read(t, objects, "-results.gz", &found)
				if len(found.Errors.OfNamespace("shop")) != 1 || len(found.Errors.OfRun()) > 0 || len(found.Warnings.OfRun()) != 2 {
					t.Errorf("the results are %+v, want those of the engine and the warning that they are late", found)
				}
				var resources map[string][]string
				if read(t, objects, "-resource-list.json.gz", &resources); !maps.EqualFunc(list(), resources, slices.Equal) {
					t.Errorf("resource list %v", resources)
				}
				if log := storedLog(t, objects); !strings.Contains(log, "Restoring objects") {
					t.Errorf("log:\n%s", log)
				}
			}
			j.RemoveLocalFiles(request.UID)
			if err := j.StorePendingReport(t.Context(), store, request); !errors.Is(err, restore.ErrResultsUnreadable) {
				t.Errorf("with nothing kept: %v", err)
			}
		})
	}
}

// TestStorePendingReport_EarlierAttempt: the local files of an interrupted attempt do not replace
// what the next one stored.
func TestStorePendingReport_EarlierAttempt(t *testing.T) {
	objects := storeWithBackup(t, 1000, objectstore.ErrNoSpace)
	var waited []time.Duration
	j := operator(t, t.TempDir(), &waited)
	store := storage.New(objects, "")
	if _, err := j.Restore(t.Context(), store, request); !errors.Is(err, restore.ErrResultsNotStored) {
		t.Fatal(err)
	}
	objects.left.Store(0)
	if _, err := j.Restore(t.Context(), store, request); err != nil {
		t.Fatal(err)
	}
	if err := j.StorePendingReport(t.Context(), store, request); !errors.Is(err, restore.ErrResultsUnreadable) {
		t.Error(err)
	}
}

// killedWhileKeeping creates beside each file in the directory the leftover of a process
// that was killed while it wrote the file.
func killedWhileKeeping(t *testing.T, scratch string) {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(scratch, "*.json"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("kept %v: %v", kept, err)
	}
	for _, path := range kept {
		if err := os.WriteFile(path+".part", []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAbandon_ReportLost loses the scratch directory.
func TestAbandon_ReportLost(t *testing.T) {
	objects := storeWithBackup(t, 1000, objectstore.ErrUnavailable)
	store, dir := storage.New(objects, ""), t.TempDir()
	var waited []time.Duration
	j := operator(t, dir, &waited)
	if _, err := j.Restore(t.Context(), store, request); !errors.Is(err, restore.ErrResultsNotStored) {
		t.Fatal(err)
	}
	objects.left.Store(0)
	for _, spoil := range []func(path string) error{
		func(path string) error { return os.Truncate(path, 100) }, os.Remove,
	} {
		kept, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range kept {
			if strings.HasSuffix(file.Name(), "-results.json") {
				if err := spoil(dir + "/" + file.Name()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := j.Abandon(t.Context(), store, request, "it was not stored"); err != nil {
			t.Fatal(err)
		}
		var found results.Results
		read(t, objects, "-results.gz", &found)
		if want := []string{"it was not stored"}; !slices.Equal(found.Errors.OfRun(), want) || len(found.Errors) > 1 {
			t.Errorf("the errors are %v, want only %q", found.Errors, want)
		}
	}
}
