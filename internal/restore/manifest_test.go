// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// TestReadManifest_UID reads manifests of Velero, one of them without a UID, and one of
// Grapnel.
func TestReadManifest_UID(t *testing.T) {
	objects := memory.New()
	store := storage.New(objects, "")
	for name, manifest := range map[string]string{"velero": `{"metadata":{"uid":"v-1"}}`, "odd": `{"metadata":{}}`} {
		key := "backups/" + name + "/velero-backup.json"
		if _, err := objects.Put(t.Context(), key, strings.NewReader(manifest), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Claim(t.Context(), "grapnel", storage.Claim{BackupUID: "u-1", Name: "grapnel"}); err != nil {
		t.Fatal(err)
	}
	attempt, err := store.BeginAttempt(t.Context(), "grapnel", "u-1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := attempt.PutContents(t.Context(), strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := attempt.Commit(t.Context(), storage.Manifest{
		VeleroBackup: []byte(`{"metadata":{"uid":"shown"}}`),
		Grapnel:      storage.GrapnelManifest{BackupUID: "u-1", Files: map[storage.File]storage.Digest{storage.Contents: digest}},
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"velero": "v-1", "odd": "", "grapnel": "u-1"} {
		if found, err := (&restore.Runner{}).ReadManifest(t.Context(), store, name, restore.Origin{}); err != nil || found.UID != want {
			t.Errorf("%s: UID %q, %v; want %q", name, found.UID, err, want)
		}
	}
}

// TestReadManifest_ManifestMissing uses backups without the manifest of Grapnel. Only one
// of Velero can be restored without the permission of a user.
func TestReadManifest_ManifestMissing(t *testing.T) {
	const annotated = `{"metadata":{"uid":"u-1","annotations":{"grapnel.dev/manifest-version":"1"}}}`
	const plain = `{"metadata":{"uid":"u-1"}}`
	for name, tc := range map[string]struct {
		velero string
		// claim is the UID in the claim, and released reports that it is no longer held.
		claim    string
		released bool
		origin   restore.Origin
		want     error
		// unverified is ManifestInfo.Unverified.
		unverified bool
	}{
		"Velero made it":                        {velero: plain},
		"Velero made it, without a UID":         {velero: `{"metadata":{}}`},
		"Velero made it under a claimed name":   {velero: plain, claim: "u-2"},
		"Velero made it after a claim":          {velero: plain, claim: "u-1", released: true},
		"its Backup is here":                    {velero: plain, origin: restore.Origin{Native: true}, want: restore.ErrUnverified},
		"its Backup was in another cluster":     {velero: annotated, want: restore.ErrUnverified},
		"an earlier version of Grapnel made it": {velero: plain, claim: "u-1", want: restore.ErrUnverified},
		"a person allows it":                    {velero: annotated, origin: restore.Origin{Native: true, AllowUnverified: true}, unverified: true},
		"a person allows what is allowed":       {velero: plain, origin: restore.Origin{AllowUnverified: true}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := memory.New()
			store := storage.New(objects, "")
			if tc.claim != "" {
				if err := store.Claim(t.Context(), "nightly", storage.Claim{BackupUID: tc.claim, Name: "nightly"}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.released {
				if err := store.Release(t.Context(), "nightly", tc.claim); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := objects.Put(t.Context(), "backups/nightly/velero-backup.json", strings.NewReader(tc.velero), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			found, err := (&restore.Runner{}).ReadManifest(t.Context(), store, "nightly", tc.origin)
			if !errors.Is(err, tc.want) || found.Unverified != tc.unverified {
				t.Errorf("Find: unverified %t, %v; want %t, %v", found.Unverified, err, tc.unverified, tc.want)
			}
			if tc.want != nil && (!errors.Is(err, restore.ErrDamaged) || !strings.Contains(err.Error(), "nightly-grapnel.json is missing")) {
				t.Errorf("Find: %v, want %v that names the file", err, restore.ErrDamaged)
			}
		})
	}
}
