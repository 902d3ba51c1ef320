// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// withDraft claims a name and stores a draft.
func withDraft(t *testing.T, s *storage.Store) {
	t.Helper()
	if err := s.Claim(t.Context(), "nightly", claimOf("uid-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutJSON(t.Context(), "nightly", "uid-1", storage.Draft, map[string]int{"items": 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutJSON(t.Context(), "nightly", "uid-1", storage.MergedDraft, map[string]int{"items": 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutFile(t.Context(), "nightly", "uid-1", storage.MergedContents, strings.NewReader("archive")); err != nil {
		t.Fatal(err)
	}
}

// drafts returns the keys of the drafts in a store.
func drafts(t *testing.T, store objectstore.Store) (out []string) {
	t.Helper()
	for _, key := range keys(t, store) {
		if strings.Contains(key, "draft") || strings.Contains(key, "merged") {
			out = append(out, key)
		}
	}
	return out
}

func TestDraft(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	var got map[string]int
	if err := s.GetJSON(t.Context(), "nightly", storage.Draft, &got); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("no draft: error %v", err)
	}
	withDraft(t, s)
	if err := s.GetJSON(t.Context(), "nightly", storage.Draft, &got); err != nil || got["items"] != 3 {
		t.Errorf("draft %v, error %v", got, err)
	}
	want := []string{
		"backups/nightly/nightly-grapnel-draft.json.gz", "backups/nightly/nightly-grapnel-merged.json.gz",
		"backups/nightly/nightly-grapnel-merged.tar.gz",
	}
	if diff := cmp.Diff(want, drafts(t, store)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if err := s.RemoveDraft(t.Context(), "nightly", "uid-2"); !isTaken(err) {
		t.Errorf("another removes it: error %v", err)
	}
	for range 2 {
		if err := s.RemoveDraft(t.Context(), "nightly", "uid-1"); err != nil {
			t.Error(err)
		}
		if left := drafts(t, store); left != nil {
			t.Errorf("left are %q", left)
		}
	}
}

func TestRemoveDraft_CompleteBackup(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	withDraft(t, s)
	mustRun(t, s, "nightly", "uid-1")
	if err := s.RemoveDraft(t.Context(), "nightly", "uid-1"); err != nil || drafts(t, store) != nil {
		t.Errorf("left are %q, error %v", drafts(t, store), err)
	}
	if err := s.Verify(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
}

func TestDiscard_Draft(t *testing.T) {
	t.Parallel()
	store := memory.New()
	s := storage.New(store, "")
	withDraft(t, s)
	if err := s.Discard(t.Context(), "nightly", "uid-1"); err != nil || drafts(t, store) != nil {
		t.Errorf("left are %q, error %v", drafts(t, store), err)
	}
	if err := s.Release(t.Context(), "nightly", "uid-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveDraft(t.Context(), "nightly", "uid-1"); !errors.Is(err, storage.ErrNotClaimed) {
		t.Errorf("after the release: error %v", err)
	}
}

func TestGetJSON_Errors(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("it broke")
	for name, tc := range map[string]struct {
		content string
		fault   *storetest.Fault
		damaged bool
	}{
		"no compression": {content: "{}", damaged: true},
		"empty":          {content: "", damaged: true},
		"cut":            {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*draft.json.gz", Cut: true, CutAt: 15}, damaged: true},
		"half of it":     {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*draft.json.gz", Cut: true, CutAt: 15, CutErr: errBroken}},
		"no answer":      {fault: &storetest.Fault{Method: storetest.MethodGet, Key: "*draft.json.gz", Before: errBroken}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faulty := storetest.NewFaultyStore(memory.New())
			s := storage.New(faulty, "")
			withDraft(t, s)
			if tc.fault != nil {
				faulty.AddFaults(*tc.fault)
			} else if _, err := s.PutFile(t.Context(), "nightly", "uid-1", storage.Draft, strings.NewReader(tc.content)); err != nil {
				t.Fatal(err)
			}
			var got any
			err := s.GetJSON(t.Context(), "nightly", storage.Draft, &got)
			if damaged := errors.As(err, new(*storage.CorruptError)); err == nil || damaged != tc.damaged || errors.Is(err, errBroken) == tc.damaged {
				t.Errorf("error %v, want one of damage: %t", err, tc.damaged)
			}
		})
	}
}
