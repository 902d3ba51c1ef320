// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package intervention_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/intervention"
)

// TestRefusalReason_OwedCleanup: clean-up that was skipped before its action began would not be owed, and the
// action would still begin.
func TestRefusalReason_OwedCleanup(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		owed   bool
		status v1alpha1.HookRunStatus
		want   string
	}{
		"has not begun":          {owed: true, want: "it is clean-up that has not begun"},
		"is being retried":       {owed: true, status: v1alpha1.HookRunStatus{StartTimestamp: &now}},
		"was canceled":           {owed: true, status: v1alpha1.HookRunStatus{Phase: v1alpha1.HookRunPhaseCancelled, CompletionTimestamp: &now}},
		"succeeded":              {owed: true, status: v1alpha1.HookRunStatus{Phase: v1alpha1.HookRunPhaseCompleted, StartTimestamp: &now, CompletionTimestamp: &now}, want: "it is Completed already"},
		"is not owed, and waits": {},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{Owed: tc.owed}, Status: tc.status}
			got := intervention.RefusalReason(run, v1alpha1.HookInterventionSkip)
			if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
