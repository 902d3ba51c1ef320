// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// TestSync_UnmountedDirectory has a directory that is empty for hours: removed backups stay removed when
// its content is back.
func TestSync_UnmountedDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("removed", "v-1")
	w.remember("removed", "v-1")
	w.remember("gone", "v-2")
	w.look()
	mounted := w.store
	w.store = newWorld(t).store
	for range 5 {
		w.look()
		w.now = w.now.Add(time.Hour)
	}
	w.store = mounted
	w.look()
	w.wantNames()
	if noted, want := w.seen(), (tombstone.Records{"removed": "v-1", "gone": "v-2"}); !maps.Equal(noted, want) {
		t.Errorf("the tombstones are %v, want %v", noted, want)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	if noted, want := w.seen(), (tombstone.Records{"removed": "v-1"}); !maps.Equal(noted, want) {
		t.Errorf("the tombstones are %v, want %v", noted, want)
	}
}

// TestUpdateTombstones_Full has more Backups than can be recorded.
func TestUpdateTombstones_Full(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.remember("large", "v-0")
	config := w.notes()
	config.Data["large"] = strings.Repeat("x", 999_980)
	w.must(w.client.Update(t.Context(), config))
	for _, name := range []string{"a", "b", "c"} {
		w.velero(name, "v-"+name)
	}
	for range 2 {
		report, _ := w.look()
		if !strings.Contains(report.TombstoneProblem, "2 more do not fit") || !strings.Contains(report.TombstoneProblem, "DeletionRuns") {
			t.Errorf("the report says %q", report.TombstoneProblem)
		}
	}
	if noted := w.seen(); noted["a"] == "" || noted["b"] != "" {
		t.Errorf("a is noted as %q, b as %q", noted["a"], noted["b"])
	}
	if event := w.event(); event != "" {
		t.Errorf("the event is %q: the condition reports it once", event)
	}
}

// TestSync_UnreadableOwnManifest has a manifest that cannot be read, and a Backup that represents it and
// succeeded.
func TestSync_UnreadableOwnManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grapnel("a", "u-1")
	w.local("a", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	w.look()
	w.put("backups/a/velero-backup.json", "no JSON")
	var reads []int
	for minute := range 40 {
		if w.look(); len(w.store.reads) > 0 {
			reads = append(reads, minute)
		}
		w.now = w.now.Add(time.Minute)
	}
	if want := []int{0, 1, 3, 7, 15, 31}; !slices.Equal(reads, want) {
		t.Errorf("read in the minutes %v, want %v", reads, want)
	}
}

// TestSync_ReadTimeouts has a store that lists its backups and does not serve them.
func TestSync_ReadTimeouts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers bool
		reads   int
		wrong   bool
	}{
		"always":            {false, 3, true},
		"but for every one": {true, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range 8 {
				w.velero(fmt.Sprintf("b-%d", i), fmt.Sprintf("v-%d", i))
			}
			w.store.fails = func(name string) error {
				if tc.answers && (name == "b-2" || name == "b-5") {
					return nil
				}
				return fmt.Errorf("reading %s: %w", name, context.DeadlineExceeded)
			}
			report, err := w.try()
			if len(w.store.reads) != tc.reads || (err != nil) != tc.wrong || (err != nil && !strings.Contains(err.Error(), "3 manifests in a row")) {
				t.Errorf("%d read, error %v, the report is %+v", len(w.store.reads), err, report)
			}
		})
	}
}

// TestMarkMissingData_ReadTimeouts has a store that hangs. The controller cannot find out whether backups are missing.
func TestMarkMissingData_ReadTimeouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.local(fmt.Sprintf("b-%d", i), fmt.Sprintf("u-%d", i), "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	}
	w.store.fails = func(string) error { return context.DeadlineExceeded }
	if report, err := w.try(); err == nil || len(w.store.reads) != 3 || report.Marked != 0 {
		t.Errorf("%d read, error %v, the report is %+v", len(w.store.reads), err, report)
	}
}
