// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// versions returns the versions from ListEntries, by name.
func versions(t *testing.T, s *storage.Store) map[string]string {
	t.Helper()
	found := map[string]string{}
	for f, err := range s.ListEntries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[f.Name]; twice {
			t.Errorf("%s is listed twice", f.Name)
		}
		found[f.Name] = f.Version
	}
	return found
}

// TestListEntries_Versions uses a backup whose manifest sorts before its other files, one whose
// manifest sorts after them, and one whose name is a prefix of another's.
func TestListEntries_Versions(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := storage.New(store, prefix)
			for _, backup := range []string{"a", "a-b", "zebra"} {
				mustRun(t, s, backup, "uid-"+backup)
			}
			putRaw(t, store, prefix+"/backups/theirs/velero-backup.json", `{}`)
			putRaw(t, store, prefix+"/backups/theirs/theirs.tar.gz", `archive`)
			putRaw(t, store, prefix+"/backups/unfinished/unfinished.tar.gz", `archive`)
			putRaw(t, store, prefix+"/backups/Not A Name/velero-backup.json", `{}`)
			putRaw(t, store, prefix+"/backups/stray.json", `{}`)
			before := versions(t, s)
			if len(before) != 4 {
				t.Fatalf("found %v, want 4 backups", before)
			}
			if !cmp.Equal(before, versions(t, s)) {
				t.Errorf("versions change without a write")
			}
			putRaw(t, store, prefix+"/backups/a/a-grapnel.json", `{"version":2}`)
			putRaw(t, store, prefix+"/backups/zebra/velero-backup.json", `{"other":1}`)
			putRaw(t, store, prefix+"/backups/a-b/a-b-logs.gz", `other`)
			var changed []string
			for name, version := range versions(t, s) {
				if version != before[name] {
					changed = append(changed, name)
				}
			}
			slices.Sort(changed)
			want := []string{"a", "zebra"}
			if before["a"] == "" {
				want = nil
			}
			if tells := store.Capabilities().Metadata; tells != (before["a"] != "") || !slices.Equal(changed, want) {
				t.Errorf("changed %q, want %q, from a store that tells: %t", changed, want, tells)
			}
		})
	}
}

// TestListEntries_Error lists a store that fails.
func TestListEntries_Error(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "..")
	var got []error
	for _, err := range s.ListEntries(t.Context()) {
		got = append(got, err)
	}
	if len(got) != 1 || !errors.Is(got[0], objectstore.ErrInvalidKey) {
		t.Errorf("errors %v, want one", got)
	}
}
