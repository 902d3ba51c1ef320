// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

var (
	due = time.Date(2024, 5, 3, 3, 0, 0, 0, time.UTC)
	end = due.Add(time.Hour)
)

// nightly is a Backup that the Schedule nightly created.
func nightly(edits ...func(*v1alpha1.Backup)) v1alpha1.Backup {
	b := v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{
		Name:        "nightly-20240503030000",
		Labels:      map[string]string{v1alpha1.LabelScheduleName: "nightly"},
		Annotations: map[string]string{v1alpha1.AnnotationScheduledTime: "2024-05-03T03:00:00Z"},
	}}
	for _, edit := range edits {
		edit(&b)
	}
	return b
}

// ended finishes a Backup with nothing left to do.
func ended(phase v1alpha1.RunPhase) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) {
		b.Status.Phase, b.Status.CompletionTimestamp = phase, &metav1.Time{Time: end}
		conditions.SetSummary(b, conditions.Current, "Done", "")
	}
}

// requested makes a Backup one that was requested manually.
func requested(request, name string) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) { b.Name, b.Annotations[v1alpha1.AnnotationRunRequestedAt] = name, request }
}

func TestToRuns(t *testing.T) {
	open := schedule.Run{Name: "nightly-20240503030000", Scheduled: due, InUse: true}
	of := func(class schedule.RunState) *schedule.Run {
		return &schedule.Run{Name: open.Name, Scheduled: due, State: class, Completed: end}
	}
	with := func(run schedule.Run, change func(*schedule.Run)) *schedule.Run {
		change(&run)
		return &run
	}
	for name, tc := range map[string]struct {
		edits []func(*v1alpha1.Backup)
		// want is nil if the Backup does not belong to the Schedule.
		want *schedule.Run
	}{
		"new":         {nil, &open},
		"in progress": {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Status.Phase = "InProgress" }}, &open},
		"completed":   {[]func(*v1alpha1.Backup){ended("Completed")}, of(schedule.Succeeded)},
		"without its data": {[]func(*v1alpha1.Backup){ended("Completed"), func(b *v1alpha1.Backup) {
			conditions.Set(b, v1alpha1.ConditionDataAvailable, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, "")
		}}, with(*of(schedule.Succeeded), func(r *schedule.Run) { r.DataMissing = true })},
		"with its data again": {[]func(*v1alpha1.Backup){ended("Completed"), func(b *v1alpha1.Backup) {
			conditions.Set(b, v1alpha1.ConditionDataAvailable, metav1.ConditionTrue, v1alpha1.ReasonDataFound, "")
		}}, of(schedule.Succeeded)},
		"partially failed": {[]func(*v1alpha1.Backup){ended("PartiallyFailed")}, of(schedule.Partial)},
		"failed":           {[]func(*v1alpha1.Backup){ended("Failed")}, of(schedule.Failed)},
		"refused":          {[]func(*v1alpha1.Backup){ended("FailedValidation")}, of(schedule.Failed)},
		"canceled":         {[]func(*v1alpha1.Backup){ended("Cancelled")}, of(schedule.Failed)},
		"with pending actions": {[]func(*v1alpha1.Backup){ended("Completed"), func(b *v1alpha1.Backup) {
			conditions.SetSummary(b, conditions.InProgress, "RunningPostBackupActions", "")
		}}, with(*of(schedule.Succeeded), func(r *schedule.Run) { r.InUse = true })},
		"being deleted": {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) {
			b.DeletionTimestamp = &metav1.Time{Time: end}
		}}, with(open, func(r *schedule.Run) { r.Deleting = true })},
		"in another zone": {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) {
			b.Annotations[v1alpha1.AnnotationScheduledTime] = "2024-05-03T05:00:00+02:00"
		}}, &open},
		"requested": {
			[]func(*v1alpha1.Backup){requested("2024-05-03T02:59:58.5Z", "nightly-20240503025958")},
			with(open, func(r *schedule.Run) { r.Name, r.Request = "nightly-20240503025958", "2024-05-03T02:59:58.5Z" }),
		},
		"a copy of a requested one": {[]func(*v1alpha1.Backup){requested("2024-05-03T02:59:58Z", "nightly-20240503030000")}, nil},
		"requested at no time":      {[]func(*v1alpha1.Backup){requested("now", "nightly-20240503030000")}, nil},
		"of another Schedule":       {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Labels[v1alpha1.LabelScheduleName] = "hourly" }}, nil},
		"without a label":           {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Labels = nil }}, nil},
		"labeled by a user":         {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Annotations = nil }}, nil},
		"a copy":                    {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Name = "before-upgrade" }}, nil},
		"with another's time":       {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Annotations[v1alpha1.AnnotationScheduledTime] = "2099-05-03T03:00:00Z" }}, nil},
		"with another time":         {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) { b.Annotations[v1alpha1.AnnotationScheduledTime] = "at night" }}, nil},
		"found in a location": {[]func(*v1alpha1.Backup){func(b *v1alpha1.Backup) {
			b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"}
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runs := retention.ToRuns("nightly", []v1alpha1.Backup{nightly(tc.edits...)})
			for i := range runs {
				runs[i].Scheduled = runs[i].Scheduled.UTC()
			}
			var want []schedule.Run
			if tc.want != nil {
				want = []schedule.Run{*tc.want}
			}
			if diff := cmp.Diff(want, runs); diff != "" {
				t.Error(diff)
			}
		})
	}
}
