// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// TestArchive_CommittedByOtherProcess lets another process of the same Backup commit first: the
// counts are those of the stored archive.
func TestArchive_CommittedByOtherProcess(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"before the archive": "*.tar.gz", "before the manifest": "*/velero-backup.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			started, release := make(chan struct{}), make(chan struct{})
			held := storetest.NewFaultyStore(objects, storetest.Fault{Method: storetest.MethodPut, Key: key, Started: started, Release: release})
			type answer struct {
				result backup.Result
				err    error
			}
			first := make(chan answer, 1)
			go func() {
				result, err := archiveBackup(t.Context(), worker(t, t.TempDir(), &engine{}), open(held))
				first <- answer{result, err}
			}()
			<-started
			other := worker(t, t.TempDir(), &engine{})
			req := request()
			req.Warnings = []string{"only the other process knows this"}
			second, err := other.Archive(t.Context(), open(objects), req)
			if err != nil {
				t.Fatal(err)
			}
			close(release)
			got := <-first
			if got.err == nil && (second.Warnings != 1 || got.result.Warnings != 1) {
				t.Errorf("told %+v, and stored is %+v", got.result, second)
			}
			if got.err != nil && !errors.Is(got.err, storage.ErrSuperseded) {
				t.Errorf("error %v", got.err)
			}
			if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestArchive_OverwrittenContents lets a process of an earlier attempt overwrite the archive once:
// the archive is written again.
func TestArchive_OverwrittenContents(t *testing.T) {
	t.Parallel()
	objects := memory.New(memory.WithoutPutIfAbsent())
	once := false
	store := &afterManifest{Store: objects, do: func() error {
		if !once {
			once = true
			_, err := objects.Put(t.Context(), "backups/nightly/nightly.tar.gz", strings.NewReader("of another"), objectstore.PutOptions{})
			return err
		}
		return nil
	}}
	made := &engine{}
	result, err := archiveBackup(t.Context(), worker(t, t.TempDir(), made), open(store))
	if err != nil || result.Items != 3 || !once {
		t.Errorf("Archive: %+v, %v", result, err)
	}
	if err := open(objects).Verify(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
}

// TestAbandon_LateArchiveStep: a step that continues after its run was canceled and
// abandoned creates no backup, and reports that there is none.
func TestAbandon_LateArchiveStep(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	started, release := make(chan struct{}), make(chan struct{})
	held := storetest.NewFaultyStore(objects, storetest.Fault{
		Method: storetest.MethodPut, Key: "*/velero-backup.json", Started: started, Release: release, IgnoreContext: true,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := archiveBackup(ctx, worker(t, t.TempDir(), &engine{}), open(held))
		ended <- err
	}()
	<-started
	cancel()
	if err := worker(t, t.TempDir(), &engine{}).Abandon(t.Context(), open(objects), request(), "canceled"); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-ended; err == nil {
		t.Error("the late step says that there is a backup")
	}
	wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
}

// TestAbandon_CommittedBackup: a process that lost its lease completes the archive of a
// run that its successor cancels. The successor can abandon the files at once, whatever it
// knows about the archive, and a later step of the old process finds no backup.
func TestAbandon_CommittedBackup(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(ctx context.Context, old *storage.Attempt) error{
		"it has ended": nil,
		"it stores a file again": func(ctx context.Context, old *storage.Attempt) error {
			_, err := old.PutContents(ctx, strings.NewReader("late"))
			return err
		},
		"it completes the backup again": func(ctx context.Context, old *storage.Attempt) error {
			return old.Commit(ctx, storage.Manifest{VeleroBackup: []byte("{}")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			store, successor := open(objects), worker(t, t.TempDir(), &engine{})
			if err := store.Claim(t.Context(), "nightly", storage.Claim{BackupUID: request().UID}); err != nil {
				t.Fatal(err)
			}
			old, err := store.BeginAttempt(t.Context(), "nightly", request().UID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := archiveBackup(t.Context(), worker(t, t.TempDir(), &engine{}), open(objects)); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, objects, complete()...)
			for range 2 { // a restarted operator repeats it
				if err := successor.Abandon(t.Context(), open(objects), request(), "canceled"); err != nil {
					t.Fatalf("Abandon: %v", err)
				}
			}
			if again != nil && again(t.Context(), old) == nil {
				t.Error("the late write went through")
			}
			wantFiles(t, objects, "nightly-logs.gz", "nightly-results.gz")
		})
	}
}

// TestAbandon_FullStore: a run whose archive filled the store frees that space, even if
// nothing can be written any more.
func TestAbandon_FullStore(t *testing.T) {
	t.Parallel()
	full := &objectstore.Error{Op: "putting", Key: "any", Kind: objectstore.ErrNoSpace}
	for name, tc := range map[string]struct {
		fault storetest.Fault
		want  []string
	}{
		"forever":                  {storetest.Fault{Method: storetest.MethodPut, Before: full}, nil},
		"until something is freed": {storetest.Fault{Method: storetest.MethodPut, Before: full, Nth: 1}, []string{"nightly-logs.gz", "nightly-results.gz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := memory.New()
			j := worker(t, t.TempDir(), &engine{})
			if err := j.Claim(t.Context(), open(objects), request()); err != nil {
				t.Fatal(err)
			}
			if _, err := putContents(t.Context(), open(objects), "nightly", "u-1", strings.NewReader("half an archive")); err != nil {
				t.Fatal(err)
			}
			if err := j.Abandon(t.Context(), open(storetest.NewFaultyStore(objects, tc.fault)), request(), "no space"); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, objects, tc.want...)
			if err := open(objects).CheckClaim(t.Context(), "nightly", "u-2"); err != nil {
				t.Errorf("the name is not free: %v", err)
			}
		})
	}
}
