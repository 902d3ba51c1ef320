// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

var errBroken = errors.New("it broke")

// archiveBackup claims and archives.
func archiveBackup(ctx context.Context, j *backup.Runner, store *storage.Store) (backup.Result, error) {
	if err := j.Claim(ctx, store, request()); err != nil {
		return backup.Result{}, err
	}
	return j.Archive(ctx, store, request())
}

// A panic that no other code recovers is an error of the backup.
func TestArchive_Panic(t *testing.T) {
	t.Parallel()
	e := &engine{fail: func(context.Context) error { panic("boom") }}
	_, err := archiveBackup(t.Context(), worker(t, t.TempDir(), e), open(memory.New()))
	if err == nil || !strings.Contains(err.Error(), "internal error: boom") || strings.Contains(err.Error(), ".go:") {
		t.Errorf("Archive: %v, want the panic without its stack", err)
	}
}

// explodingStore panics when one file is stored.
type explodingStore struct {
	objectstore.Store
	file string
}

// Put implements objectstore.Store.
func (s explodingStore) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if strings.HasSuffix(key, s.file) {
		panic("boom")
	}
	return s.Store.Put(ctx, key, r, opts)
}

func TestArchive_PanicOfTheStore(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"nightly.tar.gz", "nightly-results.gz"} {
		_, err := archiveBackup(t.Context(), worker(t, t.TempDir(), &engine{}), open(explodingStore{memory.New(), file}))
		if err == nil || !strings.Contains(err.Error(), "internal error: boom") {
			t.Errorf("%s: Archive: %v, want the panic as an error", file, err)
		}
	}
}

// TestAbandon_LostLog stores a log nevertheless: the status names it.
func TestAbandon_LostLog(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j, store := worker(t, t.TempDir(), &engine{}), open(objects)
	if err := j.Claim(t.Context(), store, request()); err != nil {
		t.Fatal(err)
	}
	if err := j.Abandon(t.Context(), store, request(), "the PreBackup action freeze failed"); err != nil {
		t.Fatal(err)
	}
	if log := unzipped(t, objects, "nightly-logs.gz"); !strings.Contains(log, "the PreBackup action freeze failed") {
		t.Errorf("the log is %s", log)
	}
}

func TestUploadPostActionLog_NoLog(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	store, j := open(objects), worker(t, t.TempDir(), &engine{})
	if _, err := archiveBackup(t.Context(), j, store); err != nil {
		t.Fatal(err)
	}
	if stored, err := j.UploadPostActionLog(t.Context(), store, request()); err != nil || stored {
		t.Errorf("StorePostLog: %v, %v; want that there was nothing", stored, err)
	}
	wantFiles(t, objects, complete()...)
}

// TestArchive_Failures: after any failure there is no manifest, nothing hangs, and another
// attempt succeeds.
func TestArchive_Failures(t *testing.T) {
	t.Parallel()
	broken := func(key string) storetest.Fault {
		return storetest.Fault{Method: storetest.MethodPut, Key: "*" + key, Nth: 1, Before: errBroken}
	}
	for name, tc := range map[string]struct {
		fail  func(context.Context) error
		fault *storetest.Fault
		text  string
	}{
		"the engine":          {fail: func(context.Context) error { return errBroken }},
		"the archive":         {fault: new(broken(".tar.gz")), text: "storing the archive"},
		"the archive, midway": {fault: &storetest.Fault{Method: storetest.MethodPut, Key: "*.tar.gz", Nth: 1, Cut: true, CutAt: 10_000, CutErr: errBroken}, text: "storing the archive"},
		"the results":         {fault: new(broken("-results.gz")), text: "storing the files of the backup"},
		"the log":             {fault: new(broken("-logs.gz")), text: "storing a log"},
		"the manifest":        {fault: new(broken("velero-backup.json")), text: "committing the backup"},
		"the first look":      {fault: &storetest.Fault{Method: storetest.MethodList, Nth: 2, Before: errBroken}, text: "looking for an earlier attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, scratch := memory.New(), t.TempDir()
			faulty := storetest.NewFaultyStore(objects)
			if tc.fault != nil {
				faulty.AddFaults(*tc.fault)
			}
			_, err := archiveBackup(t.Context(), worker(t, scratch, &engine{fail: tc.fail}), open(faulty))
			if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Archive: %v, want %q", err, tc.text)
			}
			if committed, err := open(objects).IsCommitted(t.Context(), "nightly", "u-1"); committed || err != nil {
				t.Errorf("a run that failed is committed: %v, %v", committed, err)
			}
			if tc.fault == nil {
				wantFiles(t, objects) // a partial archive must not be visible
			}
			if _, err := archiveBackup(t.Context(), worker(t, scratch, &engine{}), open(objects)); err != nil {
				t.Errorf("the next attempt: %v", err)
			}
			wantFiles(t, objects, complete()...)
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestArchive_TruncatedContents has a store that silently loses a part of the archive.
func TestArchive_TruncatedContents(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	faulty := storetest.NewFaultyStore(objects, storetest.Fault{Method: storetest.MethodPut, Key: "*.tar.gz", Cut: true, CutAt: 10_000})
	_, err := archiveBackup(t.Context(), worker(t, t.TempDir(), &engine{}), open(faulty))
	if err == nil {
		t.Fatal("half of an archive was committed")
	}
	if committed, lookErr := open(objects).IsCommitted(t.Context(), "nightly", "u-1"); committed || lookErr != nil {
		t.Errorf("committed: %v, %v after %v", committed, lookErr, err)
	}
}

// TestArchive_Canceled stops the engine; a cancellation by a user is not an error of the engine.
func TestArchive_Canceled(t *testing.T) {
	t.Parallel()
	errCause := errors.New("a person canceled it")
	ctx, cancel := context.WithCancelCause(t.Context())
	objects, scratch := memory.New(), t.TempDir()
	e := &engine{fail: func(ctx context.Context) error {
		cancel(errCause)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	if _, err := archiveBackup(ctx, worker(t, scratch, e), open(objects)); !errors.Is(err, errCause) && !errors.Is(err, context.Canceled) {
		t.Errorf("Archive: %v, want that it was canceled", err)
	}
	j := worker(t, scratch, &engine{})
	if _, err := j.Archive(ctx, open(objects), request()); !errors.Is(err, context.Canceled) && !errors.Is(err, errCause) {
		t.Errorf("Archive with a context that has ended: %v", err)
	}
	if committed, err := open(objects).IsCommitted(t.Context(), "nightly", "u-1"); committed || err != nil {
		t.Errorf("a run that was canceled is committed: %v, %v", committed, err)
	}
	if err := j.Abandon(t.Context(), open(objects), request(), "cancelled"); err != nil {
		t.Error(err)
	}
	wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
}

// TestArchive_InvalidSpec has a spec that is not JSON. It cannot be stored, and fails before there is a manifest.
func TestArchive_InvalidSpec(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	j, store := worker(t, t.TempDir(), &engine{}), open(objects)
	req := request(func(r *backup.Request) { r.Spec = json.RawMessage("{") })
	if err := j.Claim(t.Context(), store, req); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Archive(t.Context(), store, req); err == nil {
		t.Error("a manifest was written that is no JSON")
	}
	if committed, err := store.IsCommitted(t.Context(), "nightly", "u-1"); committed || err != nil {
		t.Errorf("committed: %v, %v", committed, err)
	}
}
