// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// listCachedSiblings returns the other DeletionRuns for the same backup. To decide whether to wait,
// the cache is sufficient: when a thousand backups expire at once, each DeletionRun would read a
// thousand others. The caller must not change them.
func (r *Reconciler) listCachedSiblings(ctx context.Context, d *v1alpha1.DeletionRun) ([]v1alpha1.DeletionRun, error) {
	named, err := retention.ListDeletionRuns(ctx, r.Client, d.Namespace, retention.BackupNames(d)...)
	return onlySiblings(named, d), err
}

// listSiblings reads past the cache.
func (r *Reconciler) listSiblings(ctx context.Context, d *v1alpha1.DeletionRun) ([]v1alpha1.DeletionRun, error) {
	var list v1alpha1.DeletionRunList
	if err := r.Reader.List(ctx, &list, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	return onlySiblings(list.Items, d), nil
}

// onlySiblings returns the other DeletionRuns for the same backup as d.
func onlySiblings(deletions []v1alpha1.DeletionRun, d *v1alpha1.DeletionRun) []v1alpha1.DeletionRun {
	return slices.DeleteFunc(deletions, func(other v1alpha1.DeletionRun) bool { return other.UID == d.UID || !isSameBackup(d, &other) })
}

// isSameBackup reports whether two DeletionRuns have the same target, as far as is known.
func isSameBackup(a, b *v1alpha1.DeletionRun) bool {
	one, other := targetOf(a), targetOf(b)
	if one.uid != "" && other.uid != "" {
		return one.uid == other.uid
	}
	return one.name == other.name && (one.location == "" || other.location == "" || one.location == other.location)
}

type target struct{ uid, name, location string }

// targetOf returns the backup that a DeletionRun has found, or else the one in its spec.
func targetOf(d *v1alpha1.DeletionRun) target {
	t := target{uid: d.Spec.BackupUID, name: d.Spec.BackupName, location: d.Spec.StorageLocation}
	if d.Status.BackupUID != "" {
		t = target{uid: d.Status.BackupUID, name: d.Spec.BackupName, location: d.Status.StorageLocation}
	}
	return t
}

// createdBefore reports whether a takes precedence over b: it was created first, or at the same
// time and its name sorts first.
func createdBefore(a, b *v1alpha1.DeletionRun) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// awaitOlderSibling waits for a DeletionRun for the same backup that is active or was created
// first, unless this DeletionRun has already claimed the backup.
func (r *Reconciler) awaitOlderSibling(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	claimed := b.Annotations[v1alpha1.AnnotationDeletedBy] == string(s.Object.UID)
	siblings, err := r.listCachedSiblings(ctx, s.Object)
	if err != nil {
		return false, err
	}
	for i := range siblings {
		if other := &siblings[i]; !lifecycle.IsFinished(other) && (lifecycle.IsPlanned(other) || (!claimed && createdBefore(other, s.Object))) {
			markWaitingForSibling(s, other)
			return false, nil
		}
	}
	return true, nil
}

// annotateDeletedBy records on the Backup which DeletionRun destroys it. Of two DeletionRuns
// that were created at the same moment one waits, and Restores are rejected. A finalizer keeps
// the Backup until its data is deleted, even if a user deletes it meanwhile, because actions
// receive it.
func (r *Reconciler) annotateDeletedBy(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	d := s.Object
	by := b.Annotations[v1alpha1.AnnotationDeletedBy]
	if by == string(d.UID) {
		return true, nil
	}
	if other, err := r.findAnnotatedSibling(ctx, d, by); other != nil || err != nil {
		if err == nil {
			markWaitingForSibling(s, other)
			r.driver.ReleaseSlot(s)
		}
		return false, err
	}
	if r.driver.CancelSteps(s, stepSurvey) {
		return false, nil // it may have listed Restores before this is recorded
	}
	r.driver.ResetStep(s, stepSurvey)
	claimed := b.DeepCopy()
	if claimed.Annotations == nil {
		claimed.Annotations = map[string]string{}
	}
	claimed.Annotations[v1alpha1.AnnotationDeletedBy] = string(d.UID)
	if claimed.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(claimed, v1alpha1.FinalizerStoredData)
	}
	s.AfterStatusUpdate(func(ctx context.Context) error {
		if err := r.Client.Patch(ctx, claimed, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("recording on Backup %s that it is being destroyed: %w", b.Name, err)
		}
		return nil
	})
	return false, nil // the watch delivers the Backup, and the survey begins
}

// findAnnotatedSibling returns the DeletionRun that has claimed a Backup, if it is unfinished.
// The cache may not contain it yet.
func (r *Reconciler) findAnnotatedSibling(ctx context.Context, d *v1alpha1.DeletionRun, by string) (*v1alpha1.DeletionRun, error) {
	if by == "" {
		return nil, nil
	}
	for _, list := range []func(context.Context, *v1alpha1.DeletionRun) ([]v1alpha1.DeletionRun, error){r.listCachedSiblings, r.listSiblings} {
		siblings, err := list(ctx, d)
		if err != nil {
			return nil, err
		}
		for i := range siblings {
			other := &siblings[i]
			if string(other.UID) != by {
				continue
			}
			if lifecycle.IsFinished(other) {
				return nil, nil
			}
			return other, nil
		}
	}
	return nil, nil
}

// markWaitingForSibling records that another DeletionRun does the work.
func markWaitingForSibling(s *scope, other *v1alpha1.DeletionRun) {
	s.MarkWaiting(v1alpha1.ReasonWaitingForDeletionRun,
		fmt.Sprintf("DeletionRun %s is already destroying this backup; waiting for its outcome", other.Name))
}

// adoptOutcome ends a DeletionRun whose backup another one has destroyed, with the same outcome,
// or waits for that outcome.
func (r *Reconciler) adoptOutcome(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if d.Status.BackupUID == "" && d.Spec.BackupUID == "" {
		return false, nil // it has never seen the Backup: the stored one may be another
	}
	siblings, err := r.listSiblings(ctx, d) // the cache may show the deletion of the Backup before its reason
	if err != nil {
		return false, err
	}
	for i := range siblings {
		other := &siblings[i]
		if other.Status.BackupUID == targetOf(d).uid && lifecycle.IsPlanned(other) && !lifecycle.IsFinished(other) {
			markWaitingForSibling(s, other)
			return true, nil
		}
		if other.Status.BackupUID == targetOf(d).uid && lifecycle.IsCompletedOrPartiallyFailed(other) {
			d.Status.LeftBehind = other.Status.LeftBehind
			o := lifecycle.Outcome{
				Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted,
				Message: fmt.Sprintf("DeletionRun %s destroyed the backup: %s", other.Name, lifecycle.OutcomeMessage(other)),
			}
			if other.Status.Phase == v1alpha1.RunPhasePartiallyFailed {
				o.Phase, o.Reason = v1alpha1.RunPhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
			}
			s.RecordOutcome(o, r.Now())
			return true, nil
		}
	}
	return false, nil
}
