// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

// indexer registers indexes in a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

// TestListDeletionRuns finds a DeletionRun by the name in its spec, and by that of an imported Backup
// with another name.
func TestListDeletionRuns(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	newDeletionRun := func(namespace, name, spec, status string) *v1alpha1.DeletionRun {
		return &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.DeletionRunSpec{BackupName: spec}, Status: v1alpha1.DeletionRunStatus{BackupName: status},
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		newDeletionRun("here", "new", "nightly", ""), newDeletionRun("here", "begun", "nightly", "nightly"),
		newDeletionRun("here", "imported", "stored", "nightly"), newDeletionRun("here", "another", "weekly", "weekly"),
		newDeletionRun("elsewhere", "new", "nightly", ""))
	if err := retention.IndexDeletionRuns(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	reader := builder.Build()
	for name, want := range map[string][]string{"nightly": {"begun", "imported", "new"}, "stored": {"imported"}, "none": nil} {
		found, err := retention.ListDeletionRuns(t.Context(), reader, "here", name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range found {
			got = append(got, found[i].Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("Backup %s: got %v, want %v", name, got, want)
		}
	}
}
