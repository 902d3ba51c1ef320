// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// TestMatches matches DeletionRuns with the Backup nightly in the location main.
func TestMatches(t *testing.T) {
	own := func(b *v1alpha1.Backup) { b.Status.StorageLocation = "main" }
	found := func(b *v1alpha1.Backup) { // imported, without a status yet
		b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "made-by"}
	}
	for name, tc := range map[string]struct {
		backup func(*v1alpha1.Backup)
		d      v1alpha1.DeletionRunSpec
		status v1alpha1.DeletionRunStatus
		want   bool
	}{
		"same name":                     {own, v1alpha1.DeletionRunSpec{BackupName: "nightly"}, v1alpha1.DeletionRunStatus{}, true},
		"another name":                  {own, v1alpha1.DeletionRunSpec{BackupName: "weekly"}, v1alpha1.DeletionRunStatus{}, false},
		"same name and location":        {own, v1alpha1.DeletionRunSpec{BackupName: "nightly", StorageLocation: "main"}, v1alpha1.DeletionRunStatus{}, true},
		"same name in another location": {own, v1alpha1.DeletionRunSpec{BackupName: "nightly", StorageLocation: "other"}, v1alpha1.DeletionRunStatus{}, false},
		"imported":                      {found, v1alpha1.DeletionRunSpec{BackupName: "nightly", StorageLocation: "main"}, v1alpha1.DeletionRunStatus{}, true},
		"imported, another location":    {found, v1alpha1.DeletionRunSpec{BackupName: "nightly", StorageLocation: "other"}, v1alpha1.DeletionRunStatus{}, false},
		"not stored yet":                {func(*v1alpha1.Backup) {}, v1alpha1.DeletionRunSpec{BackupName: "nightly", StorageLocation: "other"}, v1alpha1.DeletionRunStatus{}, true},
		"same UID":                      {own, v1alpha1.DeletionRunSpec{BackupName: "nightly", BackupUID: "u-1"}, v1alpha1.DeletionRunStatus{}, true},
		"same name, another UID":        {own, v1alpha1.DeletionRunSpec{BackupName: "nightly", BackupUID: "u-2"}, v1alpha1.DeletionRunStatus{}, false},
		"same UID in the status":        {own, v1alpha1.DeletionRunSpec{BackupName: "stored"}, v1alpha1.DeletionRunStatus{BackupUID: "u-1"}, true},
		"another UID in the status":     {own, v1alpha1.DeletionRunSpec{BackupName: "nightly"}, v1alpha1.DeletionRunStatus{BackupUID: "u-2"}, false},
		"the UID in the status wins":    {found, v1alpha1.DeletionRunSpec{BackupName: "nightly", BackupUID: "made-by"}, v1alpha1.DeletionRunStatus{BackupUID: "u-1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &v1alpha1.Backup{}
			b.Namespace, b.Name, b.UID = "here", "nightly", "u-1"
			tc.backup(b)
			d := &v1alpha1.DeletionRun{Spec: tc.d, Status: tc.status}
			d.Namespace = "here"
			if got := retention.Matches(d, b); got != tc.want {
				t.Errorf("Matches = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestUsesBackup_Imported has a Restore that reads an imported Backup without a status.
func TestUsesBackup_Imported(t *testing.T) {
	b := &v1alpha1.Backup{}
	b.Name, b.Spec.ImportedFrom = "nightly-1", &v1alpha1.ImportSource{StorageLocation: "main", BackupName: "nightly"}
	for location, want := range map[string]bool{"main": true, "other": false} {
		r := &v1alpha1.Restore{}
		r.Status.BackupName, r.Status.StorageLocation = "nightly", location
		if got := retention.UsesBackup(r, b); got != want {
			t.Errorf("UsesBackup = %v for a Restore from %s, want %v", got, location, want)
		}
	}
}
