// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// backup returns a Backup that ended in a phase, or that goes on, at an hour.
func backup(name, schedule string, phase v1alpha1.BackupPhase, hour int) v1alpha1.Backup {
	at := metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
	b := v1alpha1.Backup{}
	b.Name, b.Status.Phase, b.Status.StartTimestamp = name, phase, &at
	if schedule != "" {
		b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule}
	}
	if phase != v1alpha1.BackupPhaseInProgress {
		b.Status.CompletionTimestamp = &at
	}
	return b
}

func TestPick(t *testing.T) {
	imported := v1alpha1.Backup{}
	imported.Name, imported.Spec.ImportedFrom = "imported", &v1alpha1.ImportSource{StorageLocation: "main"}
	list := []v1alpha1.Backup{
		backup("done", "", v1alpha1.BackupPhaseCompleted, 1),
		backup("partly", "", v1alpha1.BackupPhasePartiallyFailed, 1),
		backup("running", "", v1alpha1.BackupPhaseInProgress, 1),
		backup("failed", "", v1alpha1.BackupPhaseFailed, 1),
		backup("n-1", "nightly", v1alpha1.BackupPhaseCompleted, 1),
		backup("n-3", "nightly", v1alpha1.BackupPhaseCompleted, 3),
		backup("n-2", "nightly", v1alpha1.BackupPhaseCompleted, 2),
		backup("n-4", "nightly", v1alpha1.BackupPhasePartiallyFailed, 4),
		backup("n-5", "nightly", v1alpha1.BackupPhaseInProgress, 5),
		backup("w-1", "weekly", v1alpha1.BackupPhaseFailed, 1),
		imported,
	}
	for name, tc := range map[string]struct {
		spec   v1alpha1.RestoreSpec
		object bool
		want   string
		text   []string
	}{
		"a completed one":              {spec: v1alpha1.RestoreSpec{BackupName: "done"}, object: true, want: "done"},
		"a partly failed one":          {spec: v1alpha1.RestoreSpec{BackupName: "partly"}, object: true, want: "partly"},
		"an imported one":              {spec: v1alpha1.RestoreSpec{BackupName: "imported"}, object: true, want: "imported"},
		"one without an object":        {spec: v1alpha1.RestoreSpec{BackupName: "elsewhere"}, want: "elsewhere"},
		"one that goes on":             {spec: v1alpha1.RestoreSpec{BackupName: "running"}, text: []string{"running has not ended", "wait for it"}},
		"one that failed":              {spec: v1alpha1.RestoreSpec{BackupName: "failed"}, text: []string{"ended as Failed", "another one"}},
		"the newest of a schedule":     {spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}, object: true, want: "n-3"},
		"a schedule without successes": {spec: v1alpha1.RestoreSpec{ScheduleName: "weekly"}, text: []string{"Schedule weekly has no Completed", "spec.backupName"}},
		"a schedule that is not there": {spec: v1alpha1.RestoreSpec{ScheduleName: "hourly"}, text: []string{"Schedule hourly"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, picked, problem := pick(&tc.spec, list)
			if picked != tc.want || (found != nil) != tc.object {
				t.Errorf("picked %q with an object: %v; want %q, %v", picked, found != nil, tc.want, tc.object)
			}
			if (problem != "") != (len(tc.text) > 0) {
				t.Errorf("problem %q", problem)
			}
			for _, part := range tc.text {
				if !strings.Contains(problem, part) {
					t.Errorf("problem %q, want it to contain %q", problem, part)
				}
			}
		})
	}
}

func TestMissingSaysWhatToDo(t *testing.T) {
	text := missing("tonight", "main", []string{"nightly", "weekly"})
	for _, part := range []string{"main has no finished backup \"tonight\"", "nightly, weekly", "spec.storageLocation"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}
