// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/imported"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
)

func TestImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("theirs", "v-1")
	w.grapnel("east", "u-1")
	w.local("ours", "u-2", "main", v1alpha1.BackupPhaseCompleted, w.now.Add(-time.Hour))
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
		if from := b.Spec.ImportedFrom; b.Status.Phase != v1alpha1.BackupPhaseCompleted || b.Status.CompletionTimestamp == nil ||
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

// TestNoBurst imports many backups, a few at a time.
func TestNoBurst(t *testing.T) {
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
		t.Errorf("imported %d in %d turns, with %d writes, want the 30 that are left, and one for all that were seen", report.Imported, w.turns.taken, len(writes))
	}
	w.quiet()
}

// TestCrash ends the operator between an object and its status.
func TestCrash(t *testing.T) {
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
		t.Fatal("the look goes on")
	}
	if b := w.get("nightly"); b.Status.Phase != "" {
		t.Fatalf("the status is %+v", b.Status)
	}
	w.refuse = nil
	w.restart()
	if _, writes := w.look(); !slices.Equal(writes, []string{"status of nightly", "create main-seen-backups"}) {
		t.Errorf("written: %q", writes)
	}
	if b := w.get("nightly"); b.Status.Phase != v1alpha1.BackupPhaseCompleted {
		t.Errorf("the status is %+v", b.Status)
	}
	w.quiet()
}

// TestCollisions has names that other backups have in this cluster.
func TestCollisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.local("a", "u-1", "other", v1alpha1.BackupPhaseCompleted, w.now.Add(-time.Hour))
	w.local("b", "u-2", "main", v1alpha1.BackupPhaseFailedValidation, w.now.Add(-time.Hour))
	for _, name := range []string{"a", "b", "c"} {
		w.velero(name, "v-"+name)
	}
	report, _ := w.look()
	if len(report.Renamed) != 2 || report.Imported != 3 {
		t.Errorf("the report is %+v", report)
	}
	event := w.event()
	if !strings.HasPrefix(event, "Warning NameTaken Backup a of BackupStorageLocation main is called a-") || !strings.HasPrefix(w.event(), "Warning NameTaken") || w.event() != "" {
		t.Errorf("the event is %q", event)
	}
	names := w.names()
	if len(names) != 5 {
		t.Errorf("the Backups are %v", names)
	}
	for name, stored := range report.Renamed {
		if names[name] != stored || w.get(name).Status.Phase != v1alpha1.BackupPhaseCompleted {
			t.Errorf("%s: %+v", name, w.get(name))
		}
	}
	w.quiet()
	w.restart()
	if report, writes := w.look(); len(writes) > 0 || len(report.Renamed) != 2 {
		t.Errorf("written: %q, the report is %+v", writes, report)
	}
}

// TestStaleCache has objects that the cache does not show yet.
func TestStaleCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("a", "v-a")
	w.look()
	w.restart()
	w.looker.Client = staleCache{Client: w.client, lists: newWorld(t).client}
	if _, writes := w.look(); len(writes) > 0 { // it was noted
		t.Errorf("written: %q", writes)
	}
	w.must(seen.Prune(t.Context(), w.client, w.client, namespace, "main", func(string) bool { return false }))
	if _, writes := w.look(); !slices.Equal(writes, []string{"create a"}) {
		t.Errorf("written: %q, want a try that does nothing", writes)
	}
	w.wantNames("a")
}

// TestUntouched has names that are not to be imported now.
func TestUntouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"running", "deleted", "stored"} {
		w.velero(name, "v-"+name)
	}
	w.local("running", "u-1", "main", v1alpha1.BackupPhaseInProgress, time.Time{})
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

func TestRemoved(t *testing.T) {
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

	// Somebody wants to see one again, and somebody else removes the key of another.
	w.bare("mine", "a", "")
	w.must(seen.Prune(t.Context(), w.client, w.client, namespace, "main", func(name string) bool { return name != "c" }))
	w.look()
	w.wantNames("b", "c", "mine")
	if b := w.get("mine"); b.Status.Phase != v1alpha1.BackupPhaseCompleted || b.Status.Files.Archive != "backups/a/a.tar.gz" {
		t.Errorf("the Backup is %+v", b)
	}
	left, err := seen.Load(t.Context(), w.client, namespace, "main")
	if want := (seen.Backups{"a": "v-a", "b": "v-b found", "c": "v-c found"}); err != nil || !maps.Equal(left, want) {
		t.Errorf("seen are %v, %v, want %v", left, err, want)
	}
	w.quiet()
	w.restart()
	w.quiet()
}

// TestMadeHere notes which backups this cluster made, also if somebody imports them again.
func TestMadeHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grapnel("ours", "u-1")
	w.local("ours", "u-1", "main", v1alpha1.BackupPhaseCompleted, w.now.Add(-time.Hour))
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
	noted, err := seen.Load(t.Context(), w.client, namespace, "main")
	if want := (seen.Backups{"ours": "u-1", "theirs": "v-1 found"}); err != nil || !maps.Equal(noted, want) {
		t.Errorf("seen are %v, %v, want %v", noted, err, want)
	}
	w.forget("a-copy")
	w.forget("theirs")
	w.forget("z-copy")
	w.quiet()
	w.wantNames()
}

// TestPruned forgets removed backups that are not stored any more, when that is sure.
func TestPruned(t *testing.T) {
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
	left, err := seen.Load(t.Context(), w.client, namespace, "main")
	if err != nil || len(left) != 2 || left["gone"] != "" {
		t.Errorf("seen are %v, %v, want kept and hidden", left, err)
	}
}

// TestVanished takes the data of Backups away and brings it back.
func TestVanished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.now.Add(-time.Hour)
	w.local("ours", "u-1", "main", v1alpha1.BackupPhaseCompleted, before)
	w.local("failed", "u-2", "main", v1alpha1.BackupPhaseFailed, before)
	w.local("just", "u-3", "main", v1alpha1.BackupPhaseCompleted, w.now)
	w.local("running", "u-4", "main", v1alpha1.BackupPhaseInProgress, time.Time{})
	w.local("elsewhere", "u-5", "other", v1alpha1.BackupPhaseCompleted, before)
	w.local("hidden", "u-6", "main", v1alpha1.BackupPhasePartiallyFailed, before)
	w.local("dying", "u-7", "main", v1alpha1.BackupPhaseCompleted, before)
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
	w.look() // notes it
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
	w.look() // notes them
	w.quiet()
}

// TestReplaced puts another backup in the place of one.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]memory.Option{"versions": nil, "no versions": {memory.WithoutMetadata()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options...)
			w.velero("a", "v-1")
			w.look()
			w.velero("a", "v-2")
			if len(options) > 0 {
				w.restart() // such a store does not tell
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
			w.look() // notes it
			w.quiet()
		})
	}
}

// TestRemade has a Backup of this cluster in the place of one that was removed and then
// destroyed, in a store that does not tell when an object changes.
func TestRemade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.WithoutMetadata())
	w.velero("a", "v-1")
	w.look()
	w.forget("a")
	w.remember("a", "v-1")
	w.drop("a")
	w.grapnel("a", "u-1")
	w.local("a", "u-1", "main", v1alpha1.BackupPhaseCompleted, w.now)
	w.look()
	w.wantNames("a")
	if status, _, _ := w.said("a", "DataAvailable"); status != "" {
		t.Errorf("DataAvailable is %q", status)
	}
	w.quiet()
}

// TestUnreadable has manifests that can not be used beside one that can.
func TestUnreadable(t *testing.T) {
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
		t.Errorf("read: %q, want what changed", w.store.reads)
	}
}

// TestUnreadableIsReadAgain reads less and less often what does not change.
func TestUnreadableIsReadAgain(t *testing.T) {
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

// TestRefused has a manifest of which the API wants no object.
func TestRefused(t *testing.T) {
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
	if report.Unreadable != 1 || !strings.HasPrefix(report.Problems[0], "a: as a Backup it is refused") {
		t.Errorf("the report is %+v", report)
	}
	w.quiet()
}

// TestBareInVain has people ask for what there is not.
func TestBareInVain(t *testing.T) {
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
		"missing": `has no finished backup "missing"`, "broken": "can not be used: file", "open": "has not ended", "mine": "UID v-1", "odd": "has no finished",
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
		if b := w.get(name); b.Status.Phase != v1alpha1.BackupPhaseCompleted {
			t.Errorf("%s: %+v", name, b.Status)
		}
	}
	if status, _, _ := w.said("other", "DataAvailable"); status != "False" {
		t.Errorf("the data of other is available: %q", status)
	}
	w.quiet()
}

// TestStoreFails ends a look that can not be trusted.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.local("ours", "u-1", "main", v1alpha1.BackupPhaseCompleted, w.now.Add(-time.Hour))
	w.velero("a", "v-a")
	w.store.fails = func(string) error { return objectstore.ErrUnavailable }
	for _, prepare := range []func(){func() {}, func() { w.drop("a") }} {
		prepare()
		w.writes = nil
		if _, err := w.try(); !errors.Is(err, objectstore.ErrUnavailable) || len(w.writes) > 0 {
			t.Errorf("error %v, written: %q", err, w.writes)
		}
	}
	w.store.fails = nil
	w.refuse = func(string, client.Object) error { return apierrors.NewServiceUnavailable("busy") }
	w.velero("a", "v-a")
	if _, err := w.try(); err == nil {
		t.Error("what could not be created is no error")
	}
	w.refuse = nil
	w.look()
	w.wantNames("a", "ours")
}

// TestSeesWhatHappens changes the cluster while turns are waited for.
func TestSeesWhatHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.velero(name, "v-"+name)
	}
	w.looker.Limiter = waits(func() {
		if w.now = w.now.Add(10 * time.Second); len(w.names()) == 1 { // after the first one
			w.remember("b", "v-b")
			w.bare("mine", "c", "v-c")
		}
	})
	w.look()
	w.wantNames("a", "mine")
	w.look()
	w.wantNames("a", "mine")
	if b := w.get("mine"); b.Status.Phase != v1alpha1.BackupPhaseCompleted {
		t.Errorf("the Backup is %+v", b)
	}
}

// TestThousands looks at 5,000 backups, none of which is new, as an operator does that was
// just started: it lists them once, and reads and writes nothing.
func TestThousands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.thousands()
	w.restart()
	w.store.lists = 0
	w.quiet()
	if w.store.lists != 1 || w.turns.taken != 0 {
		t.Errorf("the location was listed %d times, and %d turns were taken", w.store.lists, w.turns.taken)
	}
}

// BenchmarkUnchanged measures that.
func BenchmarkUnchanged(b *testing.B) {
	w := newWorld(b)
	w.thousands()
	b.ResetTimer()
	for range b.N {
		w.restart()
		w.quiet()
	}
}

// thousands stores 5,000 backups, which have their Backups and are noted.
func (w *world) thousands() {
	w.t.Helper()
	var all cached
	for i := range 5000 {
		name, uid := fmt.Sprintf("nightly-%04d", i), fmt.Sprintf("v-%d", i)
		for _, file := range []string{name + ".tar.gz", name + "-logs.gz", name + "-results.gz", name + "-grapnel.json", name + "-claim.json"} {
			w.put("backups/"+name+"/"+file, "x")
		}
		w.velero(name, uid)
		made, err := imported.Backup(imported.Source{Namespace: namespace, Location: "main", Name: name}, []byte(manifestOf(name, uid, "Completed")), nil)
		w.must(err)
		all = append(all, *made)
	}
	w.looker.Client = staleCache{Client: w.client, lists: all}
	w.look() // notes all of them
}
