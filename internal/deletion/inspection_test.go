// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// TestRunner_Ownership: only the backup's own files are passed on and removed.
func TestRunner_Ownership(t *testing.T) {
	t.Parallel()
	request := func(uid string, force bool) func(*deletion.Request) {
		return func(r *deletion.Request) { r.UID, r.Force = uid, force }
	}
	velero := change{"nightly-grapnel.json": "", "nightly-claim.json": "", "nightly-claim-2.json": ""}
	damaged := change{"velero-backup.json": "nonsense"}
	unowned := change{"velero-backup.json": "nonsense", "nightly-claim.json": "", "nightly-claim-2.json": ""}
	removed := change{"velero-backup.json": "", "nightly.tar.gz": ""}
	for name, tc := range map[string]struct {
		edit   func(*deletion.Request)
		change change
		shown  int
		left   []string
		taken  string
		stays  bool
		err    string
	}{
		"own":                       {edit: request("u-1", false), shown: 4},
		"another's":                 {edit: request("u-2", false), taken: "created by Backup /nightly (UID u-1", stays: true},
		"another's, by force":       {edit: request("", true), shown: 4},
		"Velero's":                  {edit: request("u-1", false), change: velero, taken: "created by another system", stays: true},
		"Velero's, by force":        {edit: request("", true), change: velero, shown: 4},
		"another's, of known UID":   {edit: request("u-2", true), taken: "created by Backup /nightly (UID u-1", stays: true},
		"another of Velero":         {edit: request("u-2", true), change: velero, taken: "created by another system", stays: true},
		"Velero's, of known UID":    {edit: request("u-1", true), change: velero, shown: 4},
		"being made, by force":      {edit: request("u-2", true), change: change{"velero-backup.json": "", "nightly-grapnel.json": ""}, taken: "is taken", stays: true},
		"damaged, of known UID":     {edit: request("u-2", true), change: unowned, shown: 4},
		"lost":                      {edit: func(r *deletion.Request) { r.Name, r.Complete = "weekly", true }, left: []string{"nothing of it is stored any more"}, stays: true},
		"no UID":                    {edit: request("", false), stays: true, err: "UID of the Backup"},
		"own, damaged":              {edit: request("u-1", false), change: damaged, shown: 4},
		"another's, damaged":        {edit: request("u-2", false), change: damaged, taken: "is taken", stays: true},
		"damaged, without a claim":  {edit: request("u-1", false), change: unowned, left: []string{"no claim identifies the owner"}, stays: true, err: "no claim identifies the owner"},
		"damaged, by force":         {edit: request("", true), change: unowned, shown: 4},
		"own, half removed":         {edit: request("u-1", false), change: change{"velero-backup.json": ""}, shown: 4},
		"own, without archive":      {edit: request("u-1", false), change: removed},
		"by force, without archive": {edit: request("", true), change: removed},
		"an invalid name":           {edit: func(r *deletion.Request) { r.Name = "No Name" }, stays: true},
		"an invalid name, by force": {edit: func(r *deletion.Request) { r.Name, r.Force = "No Name", true }, stays: true},
		"another name":              {edit: func(r *deletion.Request) { r.Name = "weekly" }, stays: true},
		"another name, by force":    {edit: func(r *deletion.Request) { r.Name, r.Force = "weekly", true }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, action := archiveOwnership(t, pack(t, objects()...)), &fake{}
			tc.change.apply(t, store)
			before := keys(t, store)
			req := requestOf(action, tc.edit)
			result, err := destroy(t.Context(), worker(t), store, req)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
			if !strings.Contains(result.NameConflict, tc.taken) || (result.NameConflict == "") != (tc.taken == "") {
				t.Errorf("taken %q, want something with %q", result.NameConflict, tc.taken)
			}
			if len(action.shown) != tc.shown {
				t.Errorf("%v were shown, want %d", action.shown, tc.shown)
			}
			wantLeft(t, result.Leftovers, tc.left...)
			if !tc.stays {
				before = nil
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func requestOf(action *fake, edit func(*deletion.Request)) deletion.Request {
	req := request(action)
	edit(&req)
	return req
}

// change is a change that others made to the files of the backup: new content, or "" for none.
type change map[string]string

func (c change) apply(t *testing.T, store objectstore.Store) {
	t.Helper()
	for name, content := range c {
		key := "backups/nightly/" + name
		if content != "" {
			put(t, store, key, []byte(content))
		} else if err := store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		name   string
		change change
		want   deletion.StoredBackup
	}{
		"own":            {name: "nightly", want: deletion.StoredBackup{Exists: true, UID: "u-1"}},
		"none":           {name: "weekly"},
		"impossible":     {name: "No Name"},
		"half removed":   {name: "nightly", change: change{"velero-backup.json": ""}},
		"Velero's":       {name: "nightly", change: change{"nightly-grapnel.json": ""}, want: deletion.StoredBackup{Exists: true}},
		"two halves":     {name: "nightly", change: change{"velero-backup.json": `{"other":1}`}, want: deletion.StoredBackup{Exists: true, Damaged: "does not belong to"}},
		"nonsense":       {name: "nightly", change: change{"nightly-grapnel.json": `{`}, want: deletion.StoredBackup{Exists: true, Damaged: "is not a manifest"}},
		"Velero's wrong": {name: "nightly", change: change{"velero-backup.json": `[]`, "nightly-grapnel.json": ""}, want: deletion.StoredBackup{Exists: true, Damaged: "is not a JSON object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := archiveOwnership(t, pack(t))
			tc.change.apply(t, store)
			found, err := worker(t).Inspect(t.Context(), storage.New(store, ""), tc.name)
			if err != nil {
				t.Fatal(err)
			}
			if found.Exists != tc.want.Exists || found.UID != tc.want.UID || (found.Damaged == "") != (tc.want.Damaged == "") || !strings.Contains(found.Damaged, tc.want.Damaged) {
				t.Errorf("found %+v, want %+v", found, tc.want)
			}
			if good := found.Exists && found.Damaged == ""; good != (len(found.VeleroManifest) > 0) || (found.UID != "") != (found.GrapnelManifest != nil) {
				t.Errorf("found the manifests %s and %+v", found.VeleroManifest, found.GrapnelManifest)
			}
		})
	}
	broken := storetest.NewFaultyStore(memory.New(), storetest.Fault{Before: objectstore.ErrUnavailable})
	if _, err := worker(t).Inspect(t.Context(), storage.New(broken, ""), "nightly"); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("error %v, want that of the store", err)
	}
}
