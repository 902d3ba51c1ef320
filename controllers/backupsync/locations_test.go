// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestTimeUntilSync checks when a location is synced.
func TestTimeUntilSync(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "main"}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var p locationStates
	want := func(what string, wait time.Duration) {
		t.Helper()
		if got := p.timeUntilSync(key, now, time.Minute, 2*time.Second); got != wait {
			t.Errorf("%s: the next sync is in %s, want %s", what, got, wait)
		}
	}
	p.trackGeneration(key, "u/1")
	want("a new location", 0)
	memory := p.beginSync(key)
	p.requestSync(key)
	p.recordSyncEnd(key, now)
	now = now.Add(time.Second)
	want("something happened during the look", time.Second)
	now = now.Add(time.Second)
	want("the pause is over", 0)
	if p.beginSync(key) != memory {
		t.Error("the cache is lost")
	}
	p.recordSyncEnd(key, now)
	now = now.Add(time.Second)
	want("nothing happened", 59*time.Second)
	p.recordSyncEnd(key, time.Time{})
	want("it is available again", 0)
	p.recordSyncEnd(key, now)

	if earlier := p.trackGeneration(key, "u/2"); len(earlier) != 1 || earlier[0] != "u/1" {
		t.Errorf("syncs that may still run: %q", earlier)
	}
	want("it was changed", 0)
	if p.beginSync(key) == memory {
		t.Error("the new generation has the cache of the old one")
	}
	p.forgetGeneration(key, "u/1")
	p.trackGeneration(key, "")
	p.pruneLocation(key)
	if len(p.byKey) != 1 {
		t.Error("a location was dropped although a sync of it may run")
	}
	p.forgetGeneration(key, "u/2")
	p.pruneLocation(key)
	if len(p.byKey) != 0 {
		t.Errorf("left over: %v", p.byKey)
	}
}

func TestSyncedCondition(t *testing.T) {
	many := &Report{Found: 50}
	for i := range 25 {
		many.addUnreadable(fmt.Sprintf("b-%02d", i), "is odd")
	}
	renamed := &Report{Renamed: map[string]string{}}
	for i := range 12 {
		renamed.Renamed[fmt.Sprintf("b-%02d-hash", i)] = fmt.Sprintf("b-%02d", i)
	}
	for name, tc := range map[string]struct {
		report *Report
		status metav1.ConditionStatus
		reason string
		parts  []string
		not    string
	}{
		"all is well": {&Report{Found: 3, Imported: 2}, "True", v1alpha1.ReasonSynced, []string{"Every finished backup"}, "name"},
		"renamed":     {renamed, "True", v1alpha1.ReasonSynced, []string{"b-00-hash (b-00 in the location)", "b-09-hash", ", and 2 more"}, "b-10"},
		"unreadable": {
			many, "False", v1alpha1.ReasonBackupsUnreadable,
			[]string{"25 backups cannot be imported: b-00: is odd; ", "b-09: is odd; and 15 more. Repair"},
			"b-10",
		},
		"not all recorded": {&Report{Found: 3, TombstoneProblem: "no room; destroy some"}, "False", "TooManyBackups", []string{"no room; destroy some"}, "Every"},
		"too many":         {&Report{Truncated: true}, "False", v1alpha1.ReasonBackupsUnreadable, []string{"more than 100000 backups"}, "Every"},
	} {
		says := tc.report.syncedCondition()
		if says.status != tc.status || says.reason != tc.reason || strings.Contains(says.message, tc.not) {
			t.Errorf("%s: %+v", name, says)
		}
		for _, part := range tc.parts {
			if !strings.Contains(says.message, part) {
				t.Errorf("%s: %q lacks %q", name, says.message, part)
			}
		}
	}
}
