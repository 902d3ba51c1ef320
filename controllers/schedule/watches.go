// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/names"
)

// addWatches adds the watches that enqueue Schedules besides their own: Backups, when they are created,
// finish and are deleted, and the end of runs that prevent the destruction of a Backup.
func (r *Reconciler) addWatches(b *builder.Builder) *builder.Builder {
	news := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return hasRelevantChange(e.ObjectOld, e.ObjectNew)
	}})
	ends := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // every Schedule is reconciled at the start
		UpdateFunc: func(e event.UpdateEvent) bool { return !isFinishedRun(e.ObjectOld) && isFinishedRun(e.ObjectNew) },
	})
	return b.
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.backupToSchedules), news).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(r.restoreToSchedules), ends).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.deletionRunToSchedules), ends)
}

// hasRelevantChange reports whether a Backup changed in a way that matters to its Schedule. Most changes
// are progress.
func hasRelevantChange(before, after client.Object) bool {
	type matters struct {
		schedule, time, request              string
		deleting, decided, settled, imported bool
	}
	of := func(object client.Object) matters {
		b, ok := object.(*v1alpha1.Backup)
		if !ok {
			return matters{}
		}
		return matters{
			schedule: b.Labels[v1alpha1.LabelScheduleName], time: b.Annotations[v1alpha1.AnnotationScheduledTime],
			request:  b.Annotations[v1alpha1.AnnotationRunRequestedAt],
			deleting: !b.DeletionTimestamp.IsZero(), decided: lifecycle.IsFinished(b), settled: lifecycle.IsFinalized(b),
			imported: b.Spec.ImportedFrom != nil,
		}
	}
	return of(before) != of(after)
}

func isFinishedRun(object client.Object) bool {
	subject, ok := object.(lifecycle.Object)
	return ok && lifecycle.IsFinished(subject)
}

// backupToSchedules returns the Schedule that created a Backup.
func (r *Reconciler) backupToSchedules(ctx context.Context, object client.Object) []reconcile.Request {
	return r.labelToSchedules(ctx, object.GetNamespace(), object.GetLabels()[v1alpha1.LabelScheduleName])
}

// restoreToSchedules returns the Schedule of the Backup that a Restore is for.
func (r *Reconciler) restoreToSchedules(ctx context.Context, object client.Object) []reconcile.Request {
	restore, ok := object.(*v1alpha1.Restore)
	if !ok {
		return nil
	}
	if restore.Spec.ScheduleName != "" {
		return r.labelToSchedules(ctx, restore.Namespace, names.LabelValue(restore.Spec.ScheduleName))
	}
	return r.backupNameToSchedules(ctx, restore.Namespace, restore.Spec.BackupName)
}

// deletionRunToSchedules returns the Schedule of the Backup that a DeletionRun destroys. If the Backup
// no longer exists, its deletion has already enqueued the Schedule.
func (r *Reconciler) deletionRunToSchedules(ctx context.Context, object client.Object) []reconcile.Request {
	deletion, ok := object.(*v1alpha1.DeletionRun)
	if !ok {
		return nil
	}
	return r.backupNameToSchedules(ctx, deletion.Namespace, deletion.Spec.BackupName)
}

// backupNameToSchedules returns the Schedule of a Backup.
func (r *Reconciler) backupNameToSchedules(ctx context.Context, namespace, backup string) []reconcile.Request {
	var b v1alpha1.Backup
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: backup}, &b); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Finding the Schedule of a Backup failed", "backup", backup)
		}
		return nil
	}
	return r.backupToSchedules(ctx, &b)
}

// labelToSchedules returns the Schedules that set a label on their Backups: usually one.
func (r *Reconciler) labelToSchedules(ctx context.Context, namespace, label string) []reconcile.Request {
	if label == "" {
		return nil
	}
	var list v1alpha1.ScheduleList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Schedules failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if s := &list.Items[i]; names.LabelValue(s.Name) == label {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return requests
}
