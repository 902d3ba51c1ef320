// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// TestRecordStage records the stages of runs, one change of the status each second.
func TestRecordStage(t *testing.T) {
	type backupScope = Scope[*v1alpha1.Backup]
	waiting := func(reason string) func(*backupScope) {
		return func(s *backupScope) { s.MarkWaiting(reason, "Waiting") }
	}
	running := func(reason string) func(*backupScope) {
		return func(s *backupScope) { s.MarkRunning(reason, "Running") }
	}
	outcome := func(s *backupScope) {
		s.RecordOutcome(Outcome{v1alpha1.RunPhaseCompleted, v1alpha1.ReasonCompleted, "3 objects"}, noon)
	}
	remaining := func(reason string) func(*backupScope) {
		return func(s *backupScope) { s.ReportRemainingWork(reason, "remaining") }
	}
	finalized := func(s *backupScope) { s.MarkFinalized() }
	for name, tc := range map[string]struct {
		changes []func(*backupScope)
		want    []string
	}{
		"not reconciled": {changes: []func(*backupScope){func(*backupScope) {}}},
		"current":        {changes: []func(*backupScope){waiting("Queued")}, want: []string{"Queued 0-"}},
		"the same stage with another message": {
			changes: []func(*backupScope){running("Archiving"), func(s *backupScope) { s.MarkRunning("Archiving", "3 of 4") }, running("Cancelling")},
			want:    []string{"Archiving 0-2", "Cancelling 2-"},
		},
		"to the end": {
			changes: []func(*backupScope){waiting("Queued"), running("Archiving"), outcome, remaining("StoringLogs"), finalized, finalized},
			want:    []string{"Queued 0-1", "Archiving 1-2", "Finalizing 2-3", "StoringLogs 3-4"},
		},
		"clean-up is overdue, which is no end": {
			changes: []func(*backupScope){outcome, remaining("RunningPostBackupActions"), func(s *backupScope) {
				s.ReportRemainingWork("CleanupOverdue", "overdue")
				conditions.Set(s.Object, v1alpha1.ConditionCleanupOwed, "True", "CleanupOverdue", "overdue")
				conditions.SetSummary(s.Object, conditions.StalledRetrying, "CleanupOverdue", "overdue")
			}},
			want: []string{"Finalizing 0-1", "RunningPostBackupActions 1-2", "CleanupOverdue 2-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(BackupKind, queued("b", 0))
			s.Object.Status.Conditions = nil
			for i, change := range tc.changes {
				change(s)
				recordStage(s.Object, noon.Add(time.Duration(i)*time.Second))
			}
			if got := describeTimeline(s.Object.Status.Timeline); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecordStage_Many checks that a run with any number of stages keeps the first and the last.
func TestRecordStage_Many(t *testing.T) {
	s := newScope(BackupKind, queued("b", 0))
	for i := range 100 {
		s.MarkRunning(fmt.Sprint("Stage", i), "Running")
		recordStage(s.Object, noon.Add(time.Duration(i)*time.Second))
	}
	timeline := s.Object.Status.Timeline
	if len(timeline) != maxStages {
		t.Fatalf("there are %d stages", len(timeline))
	}
	for i, stage := range timeline {
		want := i
		if i >= numProtectedStages {
			want = 100 - maxStages + i
		}
		if stage.Name != fmt.Sprint("Stage", want) {
			t.Errorf("stage %d is %s, want Stage%d", i, stage.Name, want)
		}
	}
}

// describeTimeline returns each stage with the seconds in which it began and ended.
func describeTimeline(timeline []v1alpha1.RunStage) (stages []string) {
	for _, stage := range timeline {
		text := fmt.Sprintf("%s %.0f-", stage.Name, stage.StartTimestamp.Sub(noon).Seconds())
		if end := stage.CompletionTimestamp; end != nil {
			text += fmt.Sprintf("%.0f", end.Sub(noon).Seconds())
		}
		stages = append(stages, text)
	}
	return stages
}
