// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

func TestLocationChangedPredicate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*v1alpha1.BackupStorageLocation)
		want   bool
	}{
		"it was checked again": {change: func(l *v1alpha1.BackupStorageLocation) {
			l.Status.LastValidationTime = &metav1.Time{Time: time.Unix(1, 0)}
		}},
		"sync counts other backups": {change: func(l *v1alpha1.BackupStorageLocation) {
			conditions.Set(l, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonImportLimited, "4 backups")
		}},
		"its spec":                            {change: func(l *v1alpha1.BackupStorageLocation) { l.Generation++ }, want: true},
		"it was replaced by another location": {change: func(l *v1alpha1.BackupStorageLocation) { l.UID = "2" }, want: true},
		"it is deleted":                       {change: func(l *v1alpha1.BackupStorageLocation) { l.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, want: true},
		"it became unavailable": {change: func(l *v1alpha1.BackupStorageLocation) {
			conditions.Set(l, v1alpha1.ConditionAvailable, metav1.ConditionFalse, "Broken", "")
		}, want: true},
		"its new spec was checked": {change: func(l *v1alpha1.BackupStorageLocation) { l.Status.Conditions[0].ObservedGeneration++ }, want: true},
		"a condition changed": {change: func(l *v1alpha1.BackupStorageLocation) {
			conditions.Set(l, "Full", metav1.ConditionTrue, "NoSpace", "")
		}, want: true},
		"only its phase was written first": {change: func(l *v1alpha1.BackupStorageLocation) { l.Status.Phase = v1alpha1.LocationPhaseAvailable }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "1", Generation: 1}}
			conditions.Set(before, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable, "")
			conditions.Set(before, v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonImportLimited, "3 backups")
			after := before.DeepCopy()
			tc.change(after)
			if got := locationChangedPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("the update passes: %t, want %t", got, tc.want)
			}
		})
	}
}
