// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// TestFindSaysWhoMadeIt reads manifests of Velero, one of them without a UID, and one of
// Grapnel.
func TestFindSaysWhoMadeIt(t *testing.T) {
	objects := memory.New()
	store := backupstore.New(objects, "")
	for name, manifest := range map[string]string{"velero": `{"metadata":{"uid":"v-1"}}`, "odd": `{"metadata":{}}`} {
		key := "backups/" + name + "/velero-backup.json"
		if _, err := objects.Put(t.Context(), key, strings.NewReader(manifest), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Claim(t.Context(), "grapnel", backupstore.Claim{BackupUID: "u-1", Name: "grapnel"}); err != nil {
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
	if err := attempt.Commit(t.Context(), backupstore.Manifest{
		VeleroBackup: []byte(`{"metadata":{"uid":"shown"}}`),
		Grapnel:      backupstore.GrapnelManifest{BackupUID: "u-1", Files: map[backupstore.File]backupstore.Digest{backupstore.Contents: digest}},
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"velero": "v-1", "odd": "", "grapnel": "u-1"} {
		if found, err := (&job.Runner{}).ReadManifest(t.Context(), store, name, job.Origin{}); err != nil || found.UID != want {
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
		origin   job.Origin
		want     error
		// unverified is ManifestInfo.Unverified.
		unverified bool
	}{
		"Velero made it":                        {velero: plain},
		"Velero made it, without a UID":         {velero: `{"metadata":{}}`},
		"Velero made it under a claimed name":   {velero: plain, claim: "u-2"},
		"Velero made it after a claim":          {velero: plain, claim: "u-1", released: true},
		"its Backup is here":                    {velero: plain, origin: job.Origin{Native: true}, want: job.ErrUnverified},
		"its Backup was in another cluster":     {velero: annotated, want: job.ErrUnverified},
		"an earlier version of Grapnel made it": {velero: plain, claim: "u-1", want: job.ErrUnverified},
		"a person allows it":                    {velero: annotated, origin: job.Origin{Native: true, AllowUnverified: true}, unverified: true},
		"a person allows what is allowed":       {velero: plain, origin: job.Origin{AllowUnverified: true}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := memory.New()
			store := backupstore.New(objects, "")
			if tc.claim != "" {
				if err := store.Claim(t.Context(), "nightly", backupstore.Claim{BackupUID: tc.claim, Name: "nightly"}); err != nil {
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
			found, err := (&job.Runner{}).ReadManifest(t.Context(), store, "nightly", tc.origin)
			if !errors.Is(err, tc.want) || found.Unverified != tc.unverified {
				t.Errorf("Find: unverified %t, %v; want %t, %v", found.Unverified, err, tc.unverified, tc.want)
			}
			if tc.want != nil && (!errors.Is(err, job.ErrDamaged) || !strings.Contains(err.Error(), "nightly-grapnel.json is missing")) {
				t.Errorf("Find: %v, want %v that names the file", err, job.ErrDamaged)
			}
		})
	}
}
