// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

func TestImportBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("theirs", "v-1")
	w.grapnel("east", "u-1")
	w.local("ours", "u-2", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.grapnel("ours", "u-2")
	w.put("backups/open/velero-backup.json", manifestOf("open", "v-2", "Finalizing"))
	w.put("backups/half/half.tar.gz", "archive")

	report, writes := w.look()
	if report.Found != 4 || report.Imported != 2 || report.Unreadable != 0 || w.turns.taken != 2 {
		t.Errorf("the report is %+v after %d turns", report, w.turns.taken)
	}
	if want := []string{"create east", "status of east", "create theirs", "status of theirs", "create main-seen-backups"}; !slices.Equal(writes, want) {
		t.Errorf("written: %q, want %q", writes, want)
	}
	w.wantNames("east", "ours", "theirs")
	for name, uid := range map[string]string{"theirs": "v-1", "east": "u-1"} {
		b := w.get(name)
		if from := b.Spec.ImportedFrom; b.Status.Phase != v1alpha1.RunPhaseCompleted || b.Status.CompletionTimestamp == nil ||
			*from != (v1alpha1.ImportSource{StorageLocation: "main", BackupUID: uid}) || b.Status.Progress.ItemsBackedUp != 3 {
			t.Errorf("the Backup is %+v", b)
		}
	}
	w.quiet()
	w.restart()
	if _, writes := w.look(); len(writes) > 0 || !slices.Equal(w.store.reads, []string{"open"}) {
		t.Errorf("a new operator writes %q and reads %q", writes, w.store.reads)
	}

	w.put("backups/open/velero-backup.json", manifestOf("open", "v-2", "Completed"))
	w.look()
	w.wantNames("east", "open", "ours", "theirs")
	w.quiet()
}

// TestImportBackup_RateLimit imports many backups, a few at a time.
func TestImportBackup_RateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 300 {
		w.velero(fmt.Sprintf("b-%03d", i), fmt.Sprintf("v-%d", i))
	}
	for range 3 {
		w.turns.taken, w.turns.most = 0, 90
		if _, err := w.try(); !errors.Is(err, errNoTurn) {
			t.Fatalf("error %v, want that of the limiter", err)
		}
	}
	if got := len(w.names()); got != 270 {
		t.Errorf("%d Backups after 270 turns", got)
	}
	w.turns.taken = 0
	if report, writes := w.look(); report.Imported != 30 || len(writes) != 61 || w.turns.taken != 30 {
		t.Errorf("imported %d in %d turns, with %d writes, want the remaining 30, and one write for the tombstones", report.Imported, w.turns.taken, len(writes))
	}
	w.quiet()
}

// TestImportBackup_CrashBeforeStatus stops the operator between the creation of an object and its status.
func TestImportBackup_CrashBeforeStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("nightly", "v-1")
	w.refuse = func(verb string, _ client.Object) error {
		if verb == "status of" {
			return errors.New("the operator died")
		}
		return nil
	}
	if _, err := w.try(); err == nil {
		t.Fatal("the sync continues")
	}
	if b := w.get("nightly"); b.Status.Phase != "" {
		t.Fatalf("the status is %+v", b.Status)
	}
	w.refuse = nil
	w.restart()
	if _, writes := w.look(); !slices.Equal(writes, []string{"status of nightly", "create main-seen-backups"}) {
		t.Errorf("written: %q", writes)
	}
	if b := w.get("nightly"); b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("the status is %+v", b.Status)
	}
	w.quiet()
}

// TestImportBackup_NameTaken has names that other backups have in this cluster.
func TestImportBackup_NameTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.local("a", "u-1", "other", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.local("b", "u-2", "main", v1alpha1.RunPhaseFailedValidation, w.now.Add(-time.Hour))
	for _, name := range []string{"a", "b", "c"} {
		w.velero(name, "v-"+name)
	}
	report, _ := w.look()
	if len(report.Renamed) != 2 || report.Imported != 3 {
		t.Errorf("the report is %+v", report)
	}
	event := w.event()
	if !strings.HasPrefix(event, "Warning NameTaken Backup a of BackupStorageLocation main is named a-") || !strings.HasPrefix(w.event(), "Warning NameTaken") || w.event() != "" {
		t.Errorf("the event is %q", event)
	}
	names := w.names()
	if len(names) != 5 {
		t.Errorf("the Backups are %v", names)
	}
	for name, stored := range report.Renamed {
		if names[name] != stored || w.get(name).Status.Phase != v1alpha1.RunPhaseCompleted {
			t.Errorf("%s: %+v", name, w.get(name))
		}
	}
	w.quiet()
	w.restart()
	if report, writes := w.look(); len(writes) > 0 || len(report.Renamed) != 2 {
		t.Errorf("written: %q, the report is %+v", writes, report)
	}
}

// TestImportBackup_StaleCache has objects that the cache does not contain yet.
func TestImportBackup_StaleCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("a", "v-a")
	w.look()
	w.restart()
	w.looker.Client = staleCache{Client: w.client, lists: newWorld(t).client}
	if _, writes := w.look(); len(writes) > 0 { // it was recorded
		t.Errorf("written: %q", writes)
	}
	w.must(tombstone.PruneRecords(t.Context(), w.client, w.client, namespace, "main", func(string) bool { return false }))
	if _, writes := w.look(); !slices.Equal(writes, []string{"create a"}) {
		t.Errorf("written: %q, want an attempt without effect", writes)
	}
	w.wantNames("a")
}

// TestSync_BackupInUse has names that must not be imported now.
func TestSync_BackupInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"running", "deleted", "stored"} {
		w.velero(name, "v-"+name)
	}
	w.local("running", "u-1", "main", v1alpha1.RunPhaseInProgress, time.Time{})
	deletions := []*v1alpha1.DeletionRun{
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: v1alpha1.DeletionRunSpec{BackupName: "deleted", StorageLocation: "main"}},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "two"}, Spec: v1alpha1.DeletionRunSpec{BackupName: "x"},
			Status: v1alpha1.DeletionRunStatus{StoredName: "stored", StorageLocation: "main"},
		},
	}
	for _, d := range deletions {
		status := d.Status
		w.must(w.client.Create(t.Context(), d))
		d.Status = status
		w.must(w.client.Status().Update(t.Context(), d))
	}
	w.quiet()
	for _, d := range deletions {
		at := metav1.NewTime(w.now)
		d.Status.CompletionTimestamp = &at
		w.must(w.client.Status().Update(t.Context(), d))
	}
	w.look()
	w.wantNames("deleted", "running", "stored")
}
