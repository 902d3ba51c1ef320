// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// TestFindSaysWhoMadeIt reads manifests of Velero, of which one tells no UID, and one of
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
	digest, err := store.PutContents(t.Context(), "grapnel", "u-1", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Commit(t.Context(), "grapnel", backupstore.Manifest{
		VeleroBackup: []byte(`{"metadata":{"uid":"shown"}}`),
		Grapnel:      backupstore.GrapnelManifest{BackupUID: "u-1", Files: map[backupstore.File]backupstore.Digest{backupstore.Contents: digest}},
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"velero": "v-1", "odd": "", "grapnel": "u-1"} {
		if found, err := (&job.Job{}).Find(t.Context(), store, name); err != nil || found.UID != want {
			t.Errorf("%s: UID %q, %v; want %q", name, found.UID, err, want)
		}
	}
}
