// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

func TestSync_RemovedByUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("a", "v-a")
	w.velero("b", "v-b")
	w.velero("c", "v-c")
	w.remember("a", "v-a")
	w.remember("b", "v-other")
	w.remember("c", "")
	w.look()
	w.wantNames("b")
	w.quiet()
	w.now = w.now.Add(48 * time.Hour)
	w.quiet()
	w.restart()
	w.look()
	w.wantNames("b")

	// One user requests the import of a removed backup, another removes the key of a tombstone.
	w.bare("mine", "a", "")
	w.must(tombstone.PruneRecords(t.Context(), w.client, w.client, namespace, "main", func(name string) bool { return name != "c" }))
	w.look()
	w.wantNames("b", "c", "mine")
	if b := w.get("mine"); b.Status.Phase != v1alpha1.RunPhaseCompleted || b.Status.Files.Archive != "backups/a/a.tar.gz" {
		t.Errorf("the Backup is %+v", b)
	}
	if noted, want := w.seen(), (tombstone.Records{"a": "v-a", "b": "v-b found", "c": "v-c found"}); !maps.Equal(noted, want) {
		t.Errorf("the tombstones are %v, want %v", noted, want)
	}
	w.quiet()
	w.restart()
	w.quiet()
}

// TestRecordTombstone_OwnBackup records which backups this cluster made, even if a user imports them again.
func TestRecordTombstone_OwnBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grapnel("ours", "u-1")
	w.local("ours", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.velero("theirs", "v-1")
	w.look()
	w.look()
	w.bare("a-copy", "ours", "u-1")
	w.bare("z-copy", "theirs", "")
	w.look()
	w.quiet()
	w.forget("ours")
	w.restart()
	w.look()
	w.quiet()
	w.wantNames("a-copy", "theirs", "z-copy")
	if noted, want := w.seen(), (tombstone.Records{"ours": "u-1", "theirs": "v-1 found"}); !maps.Equal(noted, want) {
		t.Errorf("the tombstones are %v, want %v", noted, want)
	}
	w.forget("a-copy")
	w.forget("theirs")
	w.forget("z-copy")
	w.quiet()
	w.wantNames()
}

// TestPruneTombstones removes tombstones of backups that are certainly not stored any more.
func TestPruneTombstones(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("kept", "v-1")
	w.remember("kept", "v-1")
	w.remember("gone", "v-2")
	if _, writes := w.look(); len(writes) > 0 {
		t.Errorf("written: %q, too early", writes)
	}
	w.now = w.now.Add(59 * time.Minute)
	w.quiet()
	w.velero("hidden", "v-3")
	w.remember("hidden", "v-3")
	w.store.hides["hidden"] = true
	w.look()
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	if noted, want := w.seen(), (tombstone.Records{"kept": "v-1", "hidden": "v-3"}); !maps.Equal(noted, want) {
		t.Errorf("the tombstones are %v, want %v", noted, want)
	}
}

// TestMarkMissingData removes the data of Backups and restores it.
func TestMarkMissingData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.now.Add(-time.Hour)
	w.local("ours", "u-1", "main", v1alpha1.RunPhaseCompleted, before)
	w.local("failed", "u-2", "main", v1alpha1.RunPhaseFailed, before)
	w.local("just", "u-3", "main", v1alpha1.RunPhaseCompleted, w.now)
	w.local("running", "u-4", "main", v1alpha1.RunPhaseInProgress, time.Time{})
	w.local("elsewhere", "u-5", "other", v1alpha1.RunPhaseCompleted, before)
	w.local("hidden", "u-6", "main", v1alpha1.RunPhasePartiallyFailed, before)
	w.local("dying", "u-7", "main", v1alpha1.RunPhaseCompleted, before)
	w.must(w.client.Create(t.Context(), &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d"}, Spec: v1alpha1.DeletionRunSpec{BackupName: "dying"},
	}))
	w.grapnel("hidden", "u-6")
	w.store.hides["hidden"] = true
	w.velero("theirs", "v-1")
	w.now = w.now.Add(-time.Minute)
	w.look()
	w.now = w.now.Add(time.Minute)
	w.drop("theirs")

	report, writes := w.look()
	if want := []string{"status of theirs"}; report.Marked != 1 || !slices.Equal(writes, want) {
		t.Errorf("written: %q, want %q", writes, want)
	}
	for name, want := range map[string]metav1.ConditionStatus{
		"ours": "False", "theirs": "False", "failed": "", "just": "", "running": "", "elsewhere": "", "hidden": "", "dying": "",
	} {
		if status, reason, _ := w.said(name, "DataAvailable"); status != want || (want != "" && reason != "DataMissing") {
			t.Errorf("%s: DataAvailable is %q (%s), want %q", name, status, reason, want)
		}
	}
	if first, second := w.event(), w.event(); !strings.HasPrefix(first, "Warning DataMissing") || !strings.HasPrefix(second, "Warning DataMissing") {
		t.Errorf("events %q, %q", first, second)
	}
	if !slices.Equal(w.store.reads, []string{"hidden", "theirs"}) {
		t.Errorf("read: %q", w.store.reads)
	}
	delete(w.store.hides, "hidden")
	w.look() // records it
	w.quiet()

	w.velero("theirs", "v-1")
	w.grapnel("ours", "u-1")
	w.look()
	for _, name := range []string{"ours", "theirs"} {
		if status, reason, _ := w.said(name, "DataAvailable"); status != "True" || reason != "DataFound" {
			t.Errorf("%s: DataAvailable is %q (%s)", name, status, reason)
		}
	}
	if event := w.event(); !strings.HasPrefix(event, "Normal DataFound") {
		t.Errorf("the event is %q", event)
	}
	w.look() // records them
	w.quiet()
}

// TestSync_ReplacedBackup replaces one backup by another.
func TestSync_ReplacedBackup(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]memory.Option{"versions": nil, "no versions": {memory.WithoutMetadata()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options...)
			w.velero("a", "v-1")
			w.look()
			w.velero("a", "v-2")
			if len(options) > 0 {
				w.restart() // such a store reports no change
				w.forget("a")
				w.remember("a", "v-1")
				w.look()
				w.wantNames("a")
				return
			}
			w.look()
			names := w.names()
			if len(names) != 2 || names["a"] != "a" {
				t.Fatalf("the Backups are %v", names)
			}
			if status, _, message := w.said("a", "DataAvailable"); status != "False" || !strings.Contains(message, "another backup") {
				t.Errorf("DataAvailable is %q: %s", status, message)
			}
			w.quiet()
			w.velero("a", "v-1")
			w.look()
			if status, _, _ := w.said("a", "DataAvailable"); status != "True" {
				t.Errorf("DataAvailable is %q", status)
			}
			w.look() // records it
			w.quiet()
		})
	}
}

// TestSync_ReusedName has a Backup of this cluster under the name of one that was removed and then
// destroyed, in a store that does not report when an object changes.
func TestSync_ReusedName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.WithoutMetadata())
	w.velero("a", "v-1")
	w.look()
	w.forget("a")
	w.remember("a", "v-1")
	w.drop("a")
	w.grapnel("a", "u-1")
	w.local("a", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now)
	w.look()
	w.wantNames("a")
	if status, _, _ := w.said("a", "DataAvailable"); status != "" {
		t.Errorf("DataAvailable is %q", status)
	}
	w.quiet()
}
