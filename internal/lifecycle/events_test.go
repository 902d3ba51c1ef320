// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// TestDriver_emitEvents checks what is an event of a Backup and not of a DeletionRun, of which
// there may be a thousand, and that a plan without actions is none of either.
func TestDriver_emitEvents(t *testing.T) {
	planned := func(k KindTraits, plan hook.Plan) func(Object) {
		return func(o Object) {
			conditions.Set(o, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, k.describePlan(plan))
		}
	}
	in := func(reason string) func(Object) {
		return func(o Object) {
			conditions.Set(o, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, "")
		}
	}
	actions := hook.Plan{Pre: []hook.PlannedAction{{}}}
	for name, tc := range map[string]struct {
		backup, deletion         func(Object)
		wantBackup, wantDeletion string
	}{
		"waiting for a slot": {
			backup: in(v1alpha1.ReasonQueued), wantBackup: "Normal Queued",
			deletion: in(v1alpha1.ReasonQueued),
		},
		"waiting for a location": {
			backup: in(v1alpha1.ReasonWaitingForLocation), wantBackup: "Normal WaitingForLocation",
			deletion: in(v1alpha1.ReasonWaitingForLocation), wantDeletion: "Normal WaitingForLocation",
		},
		"working": {
			backup: in(v1alpha1.ReasonArchiving), wantBackup: "Normal Archiving Archiving objects",
			deletion: in(v1alpha1.ReasonDeleting),
		},
		"a plan": {
			backup: planned(BackupKind, actions), wantBackup: "Normal PlanRecorded 1 PreBackup and 0 PostBackup actions are planned",
			deletion: planned(DeletionRunKind, actions), wantDeletion: "Normal PlanRecorded 1 Delete actions are planned",
		},
		"a plan without actions": {backup: planned(BackupKind, hook.Plan{}), deletion: planned(DeletionRunKind, hook.Plan{})},
	} {
		t.Run(name, func(t *testing.T) {
			backup, deletion := &v1alpha1.Backup{}, &v1alpha1.DeletionRun{}
			tc.backup(backup)
			tc.deletion(deletion)
			recorder := events.NewFakeRecorder(2)
			ofBackups := Driver[*v1alpha1.Backup]{Kind: BackupKind, Dependencies: Dependencies{Recorder: recorder}}
			ofBackups.emitEvents(t.Context(), &v1alpha1.Backup{}, backup)
			expectEvent(t, recorder, tc.wantBackup)
			ofDeletions := Driver[*v1alpha1.DeletionRun]{Kind: DeletionRunKind, Dependencies: Dependencies{Recorder: recorder}}
			ofDeletions.emitEvents(t.Context(), &v1alpha1.DeletionRun{}, deletion)
			expectEvent(t, recorder, tc.wantDeletion)
		})
	}
}

// expectEvent expects an event that begins with a text, or none if that is empty.
func expectEvent(t *testing.T, recorder *events.FakeRecorder, want string) {
	t.Helper()
	got := ""
	select {
	case got = <-recorder.Events:
	default:
	}
	if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
		t.Errorf("the event is %q, want %q", got, want)
	}
}
