// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// BelongsToSchedule reports whether a Backup belongs to a Schedule in its namespace: it has the
// label, and was created in this cluster. An imported Backup may belong to a Schedule of the same
// name in another cluster.
func BelongsToSchedule(b *v1alpha1.Backup, scheduleName string) bool {
	return b.Labels[v1alpha1.LabelScheduleName] == names.LabelValue(scheduleName) && b.Spec.ImportedFrom == nil
}

// NominalTime returns the time for which a Schedule created a Backup, according to the Backup. It
// is unknown if the Backup has another creator, whatever its labels are. That of a Backup which was
// requested manually is the time at which the operator handled the request.
func NominalTime(b *v1alpha1.Backup) (t time.Time, known bool) {
	t, err := time.Parse(time.RFC3339, b.Annotations[v1alpha1.AnnotationScheduledTime])
	return t, err == nil
}

// NominalTimeBy reports whether a Schedule created a Backup, and for which time. A copy of such a
// Backup has its labels and annotations, but not its name.
func NominalTimeBy(b *v1alpha1.Backup, scheduleName string) (t time.Time, created bool) {
	t, known := NominalTime(b)
	nameTime := t
	if request := b.Annotations[v1alpha1.AnnotationRunRequestedAt]; known && request != "" {
		var err error
		nameTime, err = time.Parse(time.RFC3339, request)
		known = err == nil
	}
	return t, known && BelongsToSchedule(b, scheduleName) && b.Name == schedule.RunName(scheduleName, nameTime)
}

// ToRuns returns the Backups that a Schedule created, in their order. They must be in its
// namespace.
//
// A Backup that still has work to do, for example PostBackup actions, is InUse. One with
// a deletionTimestamp is Deleting, and one whose condition DataAvailable is False is
// DataMissing. The caller must check whether Restores and DeletionRuns concern them.
func ToRuns(scheduleName string, backups []v1alpha1.Backup) []schedule.Run {
	var runs []schedule.Run
	for i := range backups {
		b := &backups[i]
		t, created := NominalTimeBy(b, scheduleName)
		if !created {
			continue
		}
		made := schedule.Run{
			Name: b.Name, Scheduled: t, Request: b.Annotations[v1alpha1.AnnotationRunRequestedAt], State: runState(b),
			InUse: !lifecycle.IsFinalized(b), Deleting: !b.DeletionTimestamp.IsZero(), DataMissing: isDataMissing(b),
		}
		if end := b.Status.CompletionTimestamp; end != nil {
			made.Completed = end.Time
		}
		runs = append(runs, made)
	}
	return runs
}

func isDataMissing(b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == metav1.ConditionFalse
}

func runState(b *v1alpha1.Backup) schedule.RunState {
	switch {
	case !lifecycle.IsFinished(b):
		return schedule.Active
	case b.Status.Phase == v1alpha1.RunPhaseCompleted:
		return schedule.Succeeded
	case lifecycle.IsCompletedOrPartiallyFailed(b):
		return schedule.Partial
	default:
		return schedule.Failed
	}
}
