// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

func TestCompleteFromManifest(t *testing.T) {
	t.Parallel()
	from := backupimport.Source{Namespace: "grapnel-system", Location: "main", Name: "nightly"}
	stored := func(uid string) deletion.StoredBackup {
		return deletion.StoredBackup{
			Exists: true, GrapnelManifest: &storage.GrapnelManifest{BackupUID: uid},
			VeleroManifest: fmt.Appendf(nil, `{"kind":"Backup","metadata":{"name":"nightly","uid":%q,"labels":{"team":"shop"}},
				"spec":{"parameters":{"example.io/remove":{"where":%q}}},"status":{"phase":"Completed","completionTimestamp":"2025-01-02T03:05:00Z"}}`,
				uid, strings.Repeat("v", 4000)),
		}
	}
	abridged := func() *v1alpha1.Backup {
		found := stored("u-1")
		b, err := backupimport.BackupFromManifest(from, found.VeleroManifest, found.GrapnelManifest)
		if err == nil {
			err = backupimport.AbridgeBackup(b)
		}
		if err != nil || b.Spec.Parameters != nil {
			t.Fatalf("%+v, %v", b, err)
		}
		b.Name, b.UID = "nightly-here", "object-1"
		return b
	}
	for name, tc := range map[string]struct {
		backup *v1alpha1.Backup
		found  deletion.StoredBackup
		want   int
	}{
		"the manifest has what the object lacks": {backup: abridged(), found: stored("u-1"), want: 4000},
		"another backup has the name":            {backup: abridged(), found: stored("u-2")},
		"the manifest is damaged":                {backup: abridged(), found: deletion.StoredBackup{Exists: true, Damaged: "is not JSON"}},
		"the object is complete":                 {backup: &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{BackupUID: "u-1"}}}, found: stored("u-1")},
		"a Backup of this cluster":               {backup: &v1alpha1.Backup{}, found: stored("u-1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := completeFromManifest(tc.backup, from, tc.found)
			if n := len(got.Spec.Parameters["example.io/remove"]["where"]); n != tc.want || got.Name != tc.backup.Name || got.UID != tc.backup.UID {
				t.Errorf("the parameter has %d bytes, want %d; the Backup is %+v", n, tc.want, got.ObjectMeta)
			}
		})
	}
}
