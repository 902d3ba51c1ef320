// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// TestAddUnreadable has invalid manifests beside a valid one.
func TestAddUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("good", "v-1")
	w.put("backups/json/velero-backup.json", "no JSON")
	w.put("backups/name/velero-backup.json", manifestOf("other", "v-2", "Completed"))
	w.velero("torn", "v-3")
	w.put("backups/torn/torn-grapnel.json", `{"version":1,"backupUID":"u-1"}`)
	w.velero("future", "v-4")
	w.put("backups/future/future-grapnel.json", `{"version":2,"backupUID":"u-1"}`)
	w.velero("locked", "v-5")
	w.store.fails = func(name string) error {
		if name == "locked" {
			return fmt.Errorf("key hunter22: %w", objectstore.ErrAccess)
		}
		return nil
	}
	report, _ := w.look()
	w.wantNames("good")
	if report.Unreadable != 5 || len(report.Problems) != 5 {
		t.Fatalf("the report is %+v", report)
	}
	for i, want := range []string{
		`future: file "future-grapnel.json" has version 2`, `json: file "velero-backup.json" is not JSON`,
		"locked: key [REDACTED]", `name: file "velero-backup.json" names another backup, "other"`, `torn: file "torn-grapnel.json" does not belong`,
	} {
		if !strings.HasPrefix(report.Problems[i], want) {
			t.Errorf("problem %q, want %q", report.Problems[i], want)
		}
		if strings.Contains(report.Problems[i], "hunter22") {
			t.Errorf("problem %q has a secret", report.Problems[i])
		}
	}
	w.quiet()
	if report, _ := w.look(); report.Unreadable != 5 {
		t.Errorf("the second report is %+v", report)
	}

	w.put("backups/json/velero-backup.json", manifestOf("json", "v-6", "Completed"))
	w.look()
	w.wantNames("good", "json")
	if !slices.Equal(w.store.reads, []string{"json"}) {
		t.Errorf("read: %q, want only changed manifests", w.store.reads)
	}
}

// TestReadEntry_RereadDelay reads an unchanged manifest less and less often.
func TestReadEntry_RereadDelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("backups/a/velero-backup.json", "no JSON")
	var reads []int
	for minute := range 600 {
		if w.look(); len(w.store.reads) > 0 {
			reads = append(reads, minute)
		}
		w.now = w.now.Add(time.Minute)
	}
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543}; !slices.Equal(reads, want) {
		t.Errorf("read in the minutes %v, want %v", reads, want)
	}
}

// TestImportBackup_Rejected has a manifest whose object the API server rejects.
func TestImportBackup_Rejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("a", "v-a")
	w.velero("b", "v-b")
	w.refuse = func(verb string, o client.Object) error {
		if verb == "create" && o.GetName() == "a" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Backup"}, "a", nil)
		}
		return nil
	}
	report, _ := w.look()
	w.wantNames("b")
	if report.Unreadable != 1 || !strings.HasPrefix(report.Problems[0], "a: the API server rejected the imported Backup") {
		t.Errorf("the report is %+v", report)
	}
	w.quiet()
}

// TestStallPendingImports requests imports of backups that do not exist.
func TestStallPendingImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("other", "v-1")
	w.put("backups/broken/velero-backup.json", "no JSON")
	w.put("backups/open/velero-backup.json", manifestOf("open", "v-2", "InProgress"))
	w.bare("missing", "", "")
	w.bare("broken", "", "")
	w.bare("open", "", "")
	w.bare("mine", "other", "v-9")
	w.bare("odd", "../other", "")
	w.look()
	for name, want := range map[string]string{
		"missing": `has no finished backup "missing"`, "broken": "cannot be used: file", "open": "has not finished", "mine": "UID v-1", "odd": "has no finished",
	} {
		if status, _, message := w.said(name, "Stalled"); status != "True" || !strings.Contains(message, want) || w.get(name).Status.Message != message {
			t.Errorf("%s: Stalled is %q: %s", name, status, message)
		}
	}
	w.wantNames("broken", "mine", "missing", "odd", "open", "other")
	w.quiet()

	w.velero("missing", "v-3")
	w.velero("broken", "v-4")
	w.velero("open", "v-2")
	w.velero("other", "v-9")
	w.look()
	for _, name := range []string{"missing", "broken", "open", "mine"} {
		if b := w.get(name); b.Status.Phase != v1alpha1.RunPhaseCompleted {
			t.Errorf("%s: %+v", name, b.Status)
		}
	}
	if status, _, _ := w.said("other", "DataAvailable"); status != "False" {
		t.Errorf("the data of other is available: %q", status)
	}
	w.quiet()
}
