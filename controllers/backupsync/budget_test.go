// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// limitTo sets spec.sync.maxBackups of the location.
func (w *world) limitTo(n int32) { w.bsl.Spec.Sync = &v1alpha1.LocationSync{MaxBackups: &n} }

// night stores a backup with the name of a scheduled backup.
func (w *world) night(day int) string {
	w.t.Helper()
	name := fmt.Sprintf("nightly-202611%02d030000", day)
	w.velero(name, fmt.Sprintf("v-%d", day))
	return name
}

func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.WithoutMetadata())
	w.limitTo(3)
	var nights []string
	for day := 1; day <= 6; day++ {
		nights = append(nights, w.night(day))
	}
	w.velero("zebra", "v-z") // without a time in its name it sorts as older than those with one
	w.local("ours", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.grapnel("ours", "u-1")

	report, _ := w.look()
	w.wantNames(append(slices.Clone(nights[3:]), "ours")...)
	if report.Excluded != 4 || len(w.store.reads) != 3 {
		t.Errorf("%d are left out after %d reads, want 4 and 3", report.Excluded, len(w.store.reads))
	}
	w.quiet()
	w.restart()
	w.quiet()

	// A newer one waits until the oldest has existed for minImportAge.
	nights = append(nights, w.night(7))
	w.quiet()
	w.now = w.now.Add(2 * time.Hour)
	report, _ = w.look()
	w.wantNames(append(slices.Clone(nights[4:]), "ours")...)
	if report.Removed != 1 || report.Imported != 1 || report.Excluded != 5 {
		t.Errorf("the report is %+v", report)
	}
	w.quiet()

	// Removed Backups come back when there is room.
	w.limitTo(4)
	w.look()
	w.wantNames(append(slices.Clone(nights[3:]), "ours")...)

	// More than half of them are surplus: the oldest are removed.
	w.limitTo(2)
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	w.wantNames(append(slices.Clone(nights[5:]), "ours")...)
	w.quiet()
}

// TestBudget_RemovedByUser does not import again what a user removed, even under a limit.
func TestBudget_RemovedByUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitTo(2)
	older, newer := w.night(1), w.night(2)
	w.look()
	w.forget(newer)
	w.quiet()
	w.wantNames(older)
}

// TestBudget_Held has imported Backups that must not be removed.
func TestBudget_Held(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*world, *v1alpha1.Backup){
		"a Restore reads it": func(w *world, b *v1alpha1.Backup) {
			w.must(w.client.Create(w.t.Context(), &v1alpha1.Restore{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "back"}, Spec: v1alpha1.RestoreSpec{BackupName: b.Name},
			}))
		},
		"a DeletionRun deletes it": func(w *world, b *v1alpha1.Backup) {
			w.must(w.client.Create(w.t.Context(), &v1alpha1.DeletionRun{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "away"}, Spec: v1alpha1.DeletionRunSpec{BackupName: b.Name},
			}))
		},
		"it has a finalizer": func(w *world, b *v1alpha1.Backup) {
			b.Finalizers = []string{"example.io/mine"}
			w.must(w.client.Update(w.t.Context(), b))
		},
		"a user adopted it": func(w *world, b *v1alpha1.Backup) {
			delete(b.Annotations, v1alpha1.AnnotationImportedBy)
			w.must(w.client.Update(w.t.Context(), b))
		},
		"deletionPolicy is Delete": func(w *world, b *v1alpha1.Backup) {
			b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
			w.must(w.client.Update(w.t.Context(), b))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limitTo(1)
			older := w.night(1)
			w.look()
			hold(w, w.get(older))
			w.night(2)
			w.now = w.now.Add(2 * time.Hour)
			report, _ := w.look()
			w.wantNames(older)
			if report.Excluded != 1 {
				t.Errorf("%d are left out", report.Excluded)
			}
		})
	}
}

// TestBudget_Older has Backups that an older version imported without the annotation.
func TestBudget_Older(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitTo(2)
	oldest, older := w.night(1), w.night(2)
	w.look()
	noted := &corev1.ConfigMap{}
	w.must(w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: tombstone.ConfigMapName("main")}, noted))
	noted.Annotations = nil
	w.must(w.client.Update(t.Context(), noted))
	for _, name := range []string{oldest, older} {
		b := w.get(name)
		delete(b.Annotations, v1alpha1.AnnotationImportedBy)
		w.must(w.client.Update(t.Context(), b))
	}
	w.restart()
	newer := w.night(3)
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	w.wantNames(older, newer)
	w.quiet()

	// Backups that a user adopts from now on stay.
	b := w.get(older)
	delete(b.Annotations, v1alpha1.AnnotationImportedBy)
	w.must(w.client.Update(t.Context(), b))
	newest := w.night(4)
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	w.wantNames(older, newest)
}

// TestBudget_ClockSetBack has an imported Backup that was created by a clock a month ahead.
func TestBudget_ClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitTo(1)
	w.night(1)
	w.look()
	newer := w.night(2)
	w.now = w.now.Add(-720 * time.Hour)
	w.look()
	w.wantNames(newer)
}

// TestBudget_ImportByUser completes an excluded backup that a user imports, and keeps it.
func TestBudget_ImportByUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitTo(1)
	older, newer := w.night(1), w.night(2)
	w.look()
	w.wantNames(newer)
	w.bare(older, "", "")
	w.look()
	if b := w.get(older); b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("the status is %+v", b.Status)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.look() // there is room for one Backup, and that Backup stays
	w.wantNames(older)
	w.quiet()
}

func TestBudget_Disabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older := w.night(1)
	w.look()
	w.bsl.Spec.Sync = &v1alpha1.LocationSync{Disabled: true}
	newer := w.night(2)
	report, writes := w.look()
	if len(writes) > 0 || len(w.store.reads) > 0 || report.Excluded != 1 {
		t.Errorf("written: %q, read: %q, the report is %+v", writes, w.store.reads, report)
	}
	w.wantNames(older)
	w.bare(newer, "", "")
	w.look()
	if b := w.get(newer); b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("the status is %+v", b.Status)
	}
}

// TestBudget_ChangingUID has a bucket in which a writer replaces a backup over and over.
func TestBudget_ChangingUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limitTo(3)
	for i := range 10 {
		w.velero("nightly", fmt.Sprintf("v-%d", i))
		w.now = w.now.Add(2 * time.Hour)
		w.look()
		if n := len(w.names()); n > 3 {
			t.Fatalf("there are %d Backups after %d replacements", n, i)
		}
	}
}

// TestBudget_Size imports a manifest that is larger than an object may be.
func TestBudget_Size(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var namespaces []string
	for i := range 2048 {
		namespaces = append(namespaces, fmt.Sprintf("%q", fmt.Sprintf("namespace-%0100d", i)))
	}
	w.put("backups/nightly/velero-backup.json", strings.Replace(manifestOf("nightly", "v-1", "Completed"), `"shop"`, strings.Join(namespaces, ","), 1))
	w.look()
	b := w.get("nightly")
	data, err := json.Marshal([]any{b.Spec, b.Labels, b.Annotations})
	w.must(err)
	if len(data) > 8<<10 || !strings.Contains(b.Annotations[v1alpha1.AnnotationAbridged], "spec.includedNamespaces") || b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Errorf("the foreign content has %d bytes: %.2000s", len(data), data)
	}
	w.quiet()
}
