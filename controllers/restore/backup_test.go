// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// backup returns a Backup in main that started at an hour and has a phase.
func backup(name, schedule string, phase v1alpha1.RunPhase, hour int) v1alpha1.Backup {
	at := metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
	b := v1alpha1.Backup{}
	b.Name, b.UID, b.Status.StorageLocation = name, types.UID("u-"+name), "main"
	b.Status.Phase, b.Status.StartTimestamp = phase, &at
	if schedule != "" {
		b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule}
	}
	if phase != v1alpha1.RunPhaseInProgress {
		b.Status.CompletionTimestamp = &at
	}
	return b
}

// imported returns a Backup that a user created for a backup in a location, and whose status is
// not set yet.
func imported(name string, from v1alpha1.ImportSource) v1alpha1.Backup {
	b := v1alpha1.Backup{}
	b.Name, b.UID, b.Spec.ImportedFrom = name, types.UID("u-"+name), &from
	return b
}

// withData records on a Backup whether its data is available.
func withData(b v1alpha1.Backup, available metav1.ConditionStatus) v1alpha1.Backup {
	conditions.Set(&b, v1alpha1.ConditionDataAvailable, available, v1alpha1.ReasonDataMissing, "")
	return b
}

func TestSelectBackup(t *testing.T) {
	planned := backup("planned", "", "", 1)
	planned.Status, planned.Spec.StorageLocation = v1alpha1.BackupStatus{}, "main"
	list := []v1alpha1.Backup{
		backup("done", "", v1alpha1.RunPhaseCompleted, 1),
		backup("partly", "", v1alpha1.RunPhasePartiallyFailed, 1),
		backup("running", "", v1alpha1.RunPhaseInProgress, 1),
		backup("failed", "", v1alpha1.RunPhaseFailed, 1),
		planned,
		backup("n-1", "nightly", v1alpha1.RunPhaseCompleted, 1),
		withData(backup("n-3", "nightly", v1alpha1.RunPhaseCompleted, 3), metav1.ConditionTrue),
		backup("n-2", "nightly", v1alpha1.RunPhaseCompleted, 2),
		backup("n-4", "nightly", v1alpha1.RunPhasePartiallyFailed, 4),
		backup("n-5", "nightly", v1alpha1.RunPhaseInProgress, 5),
		withData(backup("n-6", "nightly", v1alpha1.RunPhaseCompleted, 6), metav1.ConditionFalse),
		backup("w-1", "weekly", v1alpha1.RunPhaseFailed, 1),
		withData(backup("m-1", "monthly", v1alpha1.RunPhaseCompleted, 1), metav1.ConditionFalse),
		imported("bare", v1alpha1.ImportSource{StorageLocation: "other"}),
		imported("renamed", v1alpha1.ImportSource{StorageLocation: "other", BackupName: "done", BackupUID: "v-1"}),
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.RestoreSpec
		want storedBackup
		text []string
	}{
		"a completed one":                 {spec: v1alpha1.RestoreSpec{BackupName: "done"}, want: storedBackup{"main", "done", "u-done"}},
		"a partly failed one":             {spec: v1alpha1.RestoreSpec{BackupName: "partly"}, want: storedBackup{"main", "partly", "u-partly"}},
		"in its location":                 {spec: v1alpha1.RestoreSpec{BackupName: "done", StorageLocation: "main"}, want: storedBackup{"main", "done", "u-done"}},
		"in another location":             {spec: v1alpha1.RestoreSpec{BackupName: "done", StorageLocation: "other"}, want: storedBackup{"other", "done", ""}},
		"an imported one":                 {spec: v1alpha1.RestoreSpec{BackupName: "renamed"}, want: storedBackup{"other", "done", "v-1"}},
		"without status":                  {spec: v1alpha1.RestoreSpec{BackupName: "bare"}, want: storedBackup{"other", "bare", ""}},
		"without status, in its location": {spec: v1alpha1.RestoreSpec{BackupName: "renamed", StorageLocation: "other"}, want: storedBackup{"other", "done", "v-1"}},
		"without status, elsewhere":       {spec: v1alpha1.RestoreSpec{BackupName: "renamed", StorageLocation: "main"}, want: storedBackup{"main", "renamed", ""}},
		"one without an object":           {spec: v1alpha1.RestoreSpec{BackupName: "elsewhere"}, want: storedBackup{"", "elsewhere", ""}},
		"an unfinished one":               {spec: v1alpha1.RestoreSpec{BackupName: "running"}, text: []string{"running has not ended", "wait for it"}},
		"one that has not started":        {spec: v1alpha1.RestoreSpec{BackupName: "planned", StorageLocation: "main"}, text: []string{"planned has not ended (New)"}},
		"one that failed":                 {spec: v1alpha1.RestoreSpec{BackupName: "failed"}, text: []string{"ended as Failed", "another one"}},
		"the newest of a schedule":        {spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}, want: storedBackup{"main", "n-3", "u-n-3"}},
		"the newest, from a copy":         {spec: v1alpha1.RestoreSpec{ScheduleName: "nightly", StorageLocation: "copy"}, want: storedBackup{"copy", "n-6", "u-n-6"}},
		"a schedule without successes":    {spec: v1alpha1.RestoreSpec{ScheduleName: "weekly"}, text: []string{"Schedule weekly has no Completed", "spec.backupName"}},
		"a schedule without data":         {spec: v1alpha1.RestoreSpec{ScheduleName: "monthly"}, text: []string{"Schedule monthly has no Completed Backup with data"}},
		"an unknown schedule":             {spec: v1alpha1.RestoreSpec{ScheduleName: "hourly"}, text: []string{"Schedule hourly"}},
	} {
		t.Run(name, func(t *testing.T) {
			of, problem := selectBackup(&tc.spec, list)
			if of != tc.want {
				t.Errorf("selected %+v, want %+v", of, tc.want)
			}
			contains(t, problem, tc.text...)
		})
	}
}

// contains checks that a text has the given parts; without parts, the text must be empty.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	if text != "" && len(parts) == 0 {
		t.Errorf("unexpected: %q", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

func TestMissingBackupMessage(t *testing.T) {
	contains(t, missingBackupMessage("tonight", "main", []string{"nightly", "weekly"}),
		"main has no finished backup \"tonight\"", "nightly, weekly", "spec.storageLocation")
}
