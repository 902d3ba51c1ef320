// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestStore_BackupLifecycle(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := storage.New(store, prefix)
			mustRun(t, s, "nightly", "uid-1")
			if _, err := s.PutFile(t.Context(), "nightly", "uid-1", storage.PostLogs, strings.NewReader("post")); err != nil {
				t.Errorf("storing the log of post actions after the commit: %v", err)
			}
			wantKeys(t, store,
				"some/prefix/backups/nightly/nightly-claim-2.json",
				"some/prefix/backups/nightly/nightly-claim.json",
				"some/prefix/backups/nightly/nightly-grapnel.json",
				"some/prefix/backups/nightly/nightly-logs.gz",
				"some/prefix/backups/nightly/nightly-post-logs.gz",
				"some/prefix/backups/nightly/nightly-results.gz",
				"some/prefix/backups/nightly/nightly.tar.gz",
				"some/prefix/backups/nightly/velero-backup.json",
			)
			velero, grapnel, err := s.ReadManifest(t.Context(), "nightly")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(velero), `"kind":"Backup"`) || grapnel.BackupUID != "uid-1" ||
				grapnel.Outputs["quiesce"]["replicas"] != "3" {
				t.Errorf("manifests read back as %s and %+v", velero, grapnel)
			}
			if err := s.Verify(t.Context(), "nightly"); err != nil {
				t.Error(err)
			}
			if got := read(t, s, "nightly", storage.Contents); got != "archive of run of uid-1" {
				t.Errorf("the archive reads back as %q", got)
			}
			if diff := cmp.Diff([]string{"nightly"}, backups(t, s)); diff != "" {
				t.Errorf("backups (-want +got):\n%s", diff)
			}
			if err := s.DeleteOwned(t.Context(), "nightly", "uid-1"); err != nil {
				t.Error(err)
			}
			wantKeys(t, store)
		})
	}
}

func TestStore_CompleteBackup(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	mustRun(t, s, "nightly", "uid-1")
	_, contentsErr := putContents(t.Context(), s, "nightly", "uid-1", strings.NewReader("x"))
	_, fileErr := s.PutFile(t.Context(), "nightly", "uid-1", storage.Results, strings.NewReader("x"))
	other := manifest("uid-1", "later", map[storage.File]storage.Digest{storage.Contents: {}})
	for op, err := range map[string]error{
		"PutContents": contentsErr, "PutFile": fileErr,
		"Commit":  commit(t.Context(), s, "nightly", other),
		"Discard": s.Discard(t.Context(), "nightly", "uid-1"),
	} {
		if !errors.Is(err, storage.ErrCommitted) {
			t.Errorf("%s: error %v, want ErrCommitted", op, err)
		}
	}
	if err := s.Release(t.Context(), "nightly", "uid-1"); err != nil {
		t.Error(err)
	}
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-2")); !isTaken(err) {
		t.Errorf("another takes the name of a finished backup: error %v", err)
	}
	if err := s.Verify(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
}

func TestStore_NotClaimed(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	_, contentsErr := putContents(t.Context(), s, "nightly", "uid-1", strings.NewReader("x"))
	_, fileErr := s.PutFile(t.Context(), "nightly", "uid-1", storage.Logs, strings.NewReader("x"))
	files := map[storage.File]storage.Digest{storage.Contents: {}}
	for op, err := range map[string]error{
		"PutContents": contentsErr, "PutFile": fileErr,
		"Commit":  commit(t.Context(), s, "nightly", manifest("uid-1", "", files)),
		"Discard": s.Discard(t.Context(), "nightly", "uid-1"),
	} {
		if !errors.Is(err, storage.ErrNotClaimed) {
			t.Errorf("%s: error %v, want ErrNotClaimed", op, err)
		}
	}
	wantKeys(t, store)
}

func TestClaim_Names(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", storage.MaxNameLength())
	for name, valid := range map[string]bool{
		"nightly": true, "a": true, "nightly-2026.11.21": true, "0": true, longest: true,
		"": false, longest + "n": false, "Nightly": false, "a/b": false, "..": false, ".a": false, "a..b": false,
		"-a": false, "a-": false, "a_b": false, "a b": false, "a\n": false, "ä": false, "a.-b": false,
	} {
		s := storage.New(memory.New(), "")
		err := s.Claim(t.Context(), name, claimOf("uid"))
		if valid && err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if !valid && !errors.Is(err, storage.ErrInvalidName) {
			t.Errorf("%q: error %v, want ErrInvalidName", name, err)
		}
	}
}

// TestMaxNameLength uses a real file system, which determines the limit.
func TestMaxNameLength(t *testing.T) {
	t.Parallel()
	store := openFilesystem(t)
	s := storage.New(store, "")
	name := strings.Repeat("n", storage.MaxNameLength())
	mustRun(t, s, name, "uid-1")
	for _, file := range []storage.File{
		storage.PostLogs, storage.ResourceList, storage.VolumeInfo, storage.ItemOperations,
		storage.PodVolumeBackups, storage.VolumeSnapshots, storage.Draft, storage.MergedContents,
		storage.MergedDraft,
	} {
		if _, err := s.PutFile(t.Context(), name, "uid-1", file, strings.NewReader("x")); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, file := range []storage.RestoreFile{
		storage.RestoreLogs, storage.RestorePostLogs, storage.RestoreResults,
		storage.RestoreResourceList, storage.RestoreItemOperations,
	} {
		if _, err := s.PutRestoreFile(t.Context(), name, file, strings.NewReader("x")); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestListNames(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "p")
	mustRun(t, s, "ours", "uid-1")
	if err := s.Claim(t.Context(), "unfinished", claimOf("uid-2")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"p/backups/velero-made/velero-backup.json", "p/backups/deep/er/velero-backup.json", "p/backups/velero-backup.json",
		"p/backups/UPPER/velero-backup.json", "p/restores/r/velero-backup.json", "backups/outside/velero-backup.json",
		"p/backups/empty/empty-logs.gz",
	} {
		putRaw(t, store, key, "{}")
	}
	if diff := cmp.Diff([]string{"ours", "velero-made"}, backups(t, s)); diff != "" {
		t.Errorf("backups (-want +got):\n%s", diff)
	}
}

func TestStore_VeleroBackup(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	putRaw(t, store, "backups/theirs/velero-backup.json", `{"kind":"Backup"}`)
	putRaw(t, store, "backups/theirs/theirs.tar.gz", "archive")
	velero, grapnel, err := s.ReadManifest(t.Context(), "theirs")
	if err != nil || grapnel != nil || string(velero) != `{"kind":"Backup"}` {
		t.Errorf("ReadManifest returned %s, %v, %v", velero, grapnel, err)
	}
	if err := s.Verify(t.Context(), "theirs"); !errors.Is(err, storage.ErrNoDigests) {
		t.Errorf("Verify: error %v, want ErrNoDigests", err)
	}
	for op, err := range map[string]error{
		"Claim":       s.Claim(t.Context(), "theirs", claimOf("uid-1")),
		"Check":       s.CheckClaim(t.Context(), "theirs", "uid-1"),
		"DeleteOwned": s.DeleteOwned(t.Context(), "theirs", "uid-1"),
	} {
		if !isTaken(err) {
			t.Errorf("%s: error %v, want a TakenError", op, err)
		}
	}
	if len(keys(t, store)) != 2 {
		t.Errorf("objects are now %v", keys(t, store))
	}
	if err := s.Delete(t.Context(), "theirs"); err != nil {
		t.Error(err)
	}
	wantKeys(t, store)
}

func TestStore_MissingBackup(t *testing.T) {
	t.Parallel()
	s := storage.New(memory.New(), "")
	_, _, manifestErr := s.ReadManifest(t.Context(), "none")
	_, getErr := s.GetFile(t.Context(), "none", storage.Contents)
	for op, err := range map[string]error{"Manifest": manifestErr, "Get": getErr, "Verify": s.Verify(t.Context(), "none")} {
		if !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("%s: error %v, want ErrNotExist", op, err)
		}
	}
	if err := s.Delete(t.Context(), "none"); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	if err := s.DeleteRestore(t.Context(), "none"); err != nil {
		t.Errorf("deleting the files of no restore: %v", err)
	}
}

func TestVerify_Damage(t *testing.T) {
	t.Parallel()
	const dir = "backups/nightly/"
	for name, tc := range map[string]struct {
		file    string
		content string
		remove  bool
	}{
		"archive changed":      {file: "nightly.tar.gz", content: "archive of RUN of uid-1"},
		"archive cut":          {file: "nightly.tar.gz", content: "archive"},
		"archive grown":        {file: "nightly.tar.gz", content: "archive of run of uid-1!"},
		"results gone":         {file: "nightly-results.gz", remove: true},
		"manifest changed":     {file: "velero-backup.json", content: `{"kind":"Backup","metadata":{"uid":"uid-1"}}`},
		"grapnel manifest cut": {file: "nightly-grapnel.json", content: `{"ver`},
		"newer version":        {file: "nightly-grapnel.json", content: `{"version":2,"backupUID":"uid-1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			s := storage.New(store, "")
			mustRun(t, s, "nightly", "uid-1")
			if tc.remove {
				remove(t, store, dir+tc.file)
			} else {
				putRaw(t, store, dir+tc.file, tc.content)
			}
			if err := s.Verify(t.Context(), "nightly"); !isCorruptError(err) {
				t.Errorf("error %v, want a CorruptError", err)
			}
			if err := s.DeleteOwned(t.Context(), "nightly", "uid-1"); err != nil {
				t.Errorf("deleting a damaged backup: %v", err)
			}
			wantKeys(t, store)
		})
	}
}

func TestCommit_InvalidFiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[storage.File]storage.Digest){
		"no archive":   func(f map[storage.File]storage.Digest) { delete(f, storage.Contents) },
		"missing file": func(f map[storage.File]storage.Digest) { f[storage.VolumeInfo] = storage.Digest{} },
		"unknown file": func(f map[storage.File]storage.Digest) { f["../x"] = storage.Digest{} },
		"other size": func(f map[storage.File]storage.Digest) {
			f[storage.Contents] = storage.Digest{Size: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storage.New(memory.New(), "")
			if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
				t.Fatal(err)
			}
			digest, err := putContents(t.Context(), s, "nightly", "uid-1", strings.NewReader("archive"))
			if err != nil {
				t.Fatal(err)
			}
			files := map[storage.File]storage.Digest{storage.Contents: digest}
			change(files)
			if err := commit(t.Context(), s, "nightly", manifest("uid-1", "", files)); err == nil {
				t.Error("the commit succeeded")
			}
			if got := backups(t, s); got != nil {
				t.Errorf("there is a backup: %v", got)
			}
		})
	}
}

func TestPutJSON(t *testing.T) {
	t.Parallel()
	s := storage.New(memory.New(), "")
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
		t.Fatal(err)
	}
	value := map[string][]string{"v1/Pod": {"ns/a", "ns/b"}}
	first, err := s.PutJSON(t.Context(), "nightly", "uid-1", storage.ResourceList, value)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.PutJSON(t.Context(), "nightly", "uid-1", storage.ResourceList, value)
	if err != nil || first != second {
		t.Errorf("the same value gave %+v and %+v (error %v)", first, second, err)
	}
	z, err := gzip.NewReader(strings.NewReader(read(t, s, "nightly", storage.ResourceList)))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]string
	if err := json.NewDecoder(z).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if _, err := s.PutJSON(t.Context(), "nightly", "uid-1", storage.VolumeInfo, make(chan int)); err == nil {
		t.Error("storing something that is not JSON succeeded")
	}
	if _, err := s.GetFile(t.Context(), "nightly", storage.VolumeInfo); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("after the failure: error %v, want ErrNotExist", err)
	}
}

// TestStore_TruncatedArchive uses a store that stores less than it was given.
func TestStore_TruncatedArchive(t *testing.T) {
	t.Parallel()
	faulty := storetest.NewFaultyStore(memory.New(), storetest.Fault{Method: storetest.MethodPut, Key: "*.tar.gz", Cut: true, CutAt: 3})
	s := storage.New(faulty, "")
	err := runBackup(t.Context(), s, "nightly", "uid-1", "first")
	if err == nil {
		err = s.Verify(t.Context(), "nightly")
	}
	if err == nil {
		t.Error("a truncated archive is taken for a complete one")
	}
}

func TestPutContents_Canceled(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := storage.New(store, "")
			if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := io.MultiReader(bytes.NewReader(make([]byte, 20<<20)), readerFunc(func() { cancel() }))
			if _, err := putContents(ctx, s, "nightly", "uid-1", r); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
			wantKeys(t, store, "backups/nightly/nightly-claim-2.json", "backups/nightly/nightly-claim.json")
		})
	}
}

// readerFunc is an empty stream that calls a function when it is read.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func remove(t *testing.T, s objectstore.Store, key string) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}
