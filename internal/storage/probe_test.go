// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := storage.New(store, prefix)
			if err := s.Probe(t.Context()); err != nil {
				t.Errorf("an empty location: %v", err)
			}
			wantKeys(t, store)
			// Files of Velero and Grapnel are fine, and so is anything outside the prefix.
			for _, key := range []string{
				"some/prefix/backups/a/velero-backup.json", "some/prefix/restores/r/restore-r-logs.gz", "some/prefix/kopia/x",
				"some/prefix/restic/x", "some/prefix/metadata/revision", "some/prefix/plugins/x", "some/prefix/README", "other/x",
			} {
				putRaw(t, store, key, "x")
			}
			before := keys(t, store)
			if err := s.Probe(t.Context()); err != nil {
				t.Errorf("a location in use: %v", err)
			}
			wantKeys(t, store, before...)
			putRaw(t, store, "some/prefix/holiday-photos/1.jpg", "x")
			putRaw(t, store, "some/prefix/Backups/x", "x")
			for name, err := range map[string]error{"Probe": s.Probe(t.Context()), "ProbeReadOnly": s.ProbeReadOnly(t.Context())} {
				var foreign *storage.ForeignPrefixesError
				if !errors.As(err, &foreign) {
					t.Errorf("%s: error %v, want a ForeignPrefixesError", name, err)
					continue
				}
				if diff := cmp.Diff([]string{"Backups", "holiday-photos"}, foreign.Prefixes); diff != "" {
					t.Errorf("%s: foreign prefixes (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestProbe_PutIfAbsent(t *testing.T) {
	t.Parallel()
	store := openS3(t)
	s := storage.New(store, "")
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.Capabilities().PutIfAbsent {
		t.Error("put-if-absent is not known after a probe")
	}
}

func TestProbe_BrokenLocation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault        storetest.Fault
		wantReadable bool
	}{
		"not listable":  {storetest.Fault{Method: storetest.MethodList, Before: objectstore.ErrAccess}, false},
		"not writable":  {storetest.Fault{Method: storetest.MethodPut, Before: objectstore.ErrReadOnly}, true},
		"not readable":  {storetest.Fault{Method: storetest.MethodGet, Before: objectstore.ErrAccess}, true},
		"lies":          {storetest.Fault{Method: storetest.MethodGet, Cut: true, CutAt: 2}, true},
		"not deletable": {storetest.Fault{Method: storetest.MethodDelete, Before: objectstore.ErrAccess}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			s := storage.New(storetest.NewFaultyStore(store, tc.fault), "")
			err := s.Probe(t.Context())
			if err == nil || !errors.Is(err, tc.fault.Before) && tc.fault.Before != nil {
				t.Errorf("error %v, want %v", err, tc.fault.Before)
			}
			if err := s.ProbeReadOnly(t.Context()); (err == nil) != tc.wantReadable {
				t.Errorf("reading only: error %v", err)
			}
			if name != "not deletable" {
				wantKeys(t, store)
			}
		})
	}
}

// TestProbe_StaleProbes removes the probes of processes that died, and not those of processes
// that are running.
func TestProbe_StaleProbes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	store := memory.New(memory.WithClock(func() time.Time { return now }))
	putRaw(t, store, "backups/grapnel-probe-old", "x")
	putRaw(t, store, "backups/grapnel-probe-backup/velero-backup.json", "x")
	now = now.Add(2 * time.Hour)
	putRaw(t, store, "backups/grapnel-probe-new", "x")
	now = now.Add(time.Minute)
	if err := storage.New(store, "").Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, store, "backups/grapnel-probe-backup/velero-backup.json", "backups/grapnel-probe-new")
}

// TestProbe_StaleProbesWithoutMetadata does the same in a store without times.
func TestProbe_StaleProbesWithoutMetadata(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.WithoutMetadata())
	before := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) + " x" }
	putRaw(t, store, "backups/grapnel-probe-old", before(2*time.Hour))
	putRaw(t, store, "backups/grapnel-probe-new", before(time.Minute))
	putRaw(t, store, "backups/grapnel-probe-strange", "x")
	if err := storage.New(store, "").Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, store, "backups/grapnel-probe-new", "backups/grapnel-probe-strange")
}

func TestPutRestoreFile(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, prefix)
	digest, err := s.PutRestoreFile(t.Context(), "r", storage.RestorePostLogs, strings.NewReader("post"))
	if err != nil || digest.Size != 4 {
		t.Errorf("got %+v, %v", digest, err)
	}
	if _, err := s.PutRestoreFile(t.Context(), "../r", storage.RestoreLogs, strings.NewReader("")); !errors.Is(err, storage.ErrInvalidName) {
		t.Errorf("error %v, want ErrInvalidName", err)
	}
	if _, err := s.PutRestoreFile(t.Context(), "r", "/../x", strings.NewReader("")); err == nil {
		t.Error("an unknown file was stored")
	}
	wantKeys(t, store, "some/prefix/restores/r/restore-r-post-logs.gz")
	r, err := s.GetRestoreFile(t.Context(), "r", storage.RestorePostLogs)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := s.DeleteRestore(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	wantKeys(t, store)
}

// TestProbe_StableMessage checks a broken store twice: users watch the message, and one that
// changes all the time looks like news. The filesystem store includes the file name in its
// error.
func TestProbe_StableMessage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "backups"), nil, 0o600); err != nil {
		t.Fatal(err) // blocks the directory of that name
	}
	store, err := filesystem.Open(root, "")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		err := storage.New(store, "").Probe(t.Context())
		if err == nil {
			t.Fatal("a location without write permission passes")
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] {
		t.Errorf("the same problem has the text %q and then %q", texts[0], texts[1])
	}
}
