// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// listSiblings returns the other DeletionRuns for the same backup. Those in the cache do to wait
// for: when a thousand backups expire at once, each of them would read a thousand others.
func listSiblings(ctx context.Context, reader client.Reader, d *v1alpha1.DeletionRun) ([]*v1alpha1.DeletionRun, error) {
	var list v1alpha1.DeletionRunList
	if err := reader.List(ctx, &list, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	var same []*v1alpha1.DeletionRun
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != d.UID && isSameBackup(d, other) {
			same = append(same, other)
		}
	}
	return same, nil
}

// isSameBackup says whether two DeletionRuns mean one backup, as far as they say.
func isSameBackup(a, b *v1alpha1.DeletionRun) bool {
	one, other := targetOf(a), targetOf(b)
	if one.uid != "" && other.uid != "" {
		return one.uid == other.uid
	}
	return one.name == other.name && (one.location == "" || other.location == "" || one.location == other.location)
}

type target struct{ uid, name, location string }

// targetOf returns what a DeletionRun found out about its backup, or else what it was told.
func targetOf(d *v1alpha1.DeletionRun) target {
	t := target{uid: d.Spec.BackupUID, name: d.Spec.BackupName, location: d.Spec.StorageLocation}
	if d.Status.BackupUID != "" {
		t = target{uid: d.Status.BackupUID, name: d.Spec.BackupName, location: d.Status.StorageLocation}
	}
	return t
}

// createdBefore says which of two DeletionRuns does the work.
func createdBefore(a, b *v1alpha1.DeletionRun) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// awaitOlderSibling waits for a DeletionRun that has the same backup and works, or that came first,
// unless this one has claimed it already.
func (r *Reconciler) awaitOlderSibling(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	claimed := b.Annotations[v1alpha1.AnnotationDeletedBy] == string(s.Object.UID)
	siblings, err := listSiblings(ctx, r.Client, s.Object)
	if err != nil {
		return false, err
	}
	for _, other := range siblings {
		if !run.IsFinished(other) && (run.IsPlanned(other) || (!claimed && createdBefore(other, s.Object))) {
			markWaitingForSibling(s, other)
			return false, nil
		}
	}
	return true, nil
}

// annotateDeletedBy notes on the Backup which DeletionRun destroys it, so that of two that were created
// at the same moment one waits, and Restores are refused. The Backup stays until its data is
// gone, whoever deletes it meanwhile: actions are told of it.
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
	claimed := b.DeepCopy()
	if claimed.Annotations == nil {
		claimed.Annotations = map[string]string{}
	}
	claimed.Annotations[v1alpha1.AnnotationDeletedBy] = string(d.UID)
	if claimed.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(claimed, v1alpha1.FinalizerStoredData)
	}
	s.AfterStatusUpdate(func(ctx context.Context) error {
		err := r.Client.Patch(ctx, claimed, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the next pass sees what changed
		}
		if err != nil {
			return fmt.Errorf("noting on Backup %s that it is being destroyed: %w", b.Name, err)
		}
		return nil
	})
	s.RequeueAfter(1)
	return false, nil
}

// findAnnotatedSibling returns the DeletionRun that has claimed a Backup, if it has not ended. It may be
// younger than the cache.
func (r *Reconciler) findAnnotatedSibling(ctx context.Context, d *v1alpha1.DeletionRun, by string) (*v1alpha1.DeletionRun, error) {
	if by == "" {
		return nil, nil
	}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		siblings, err := listSiblings(ctx, reader, d)
		if err != nil {
			return nil, err
		}
		for _, other := range siblings {
			if string(other.UID) != by {
				continue
			}
			if run.IsFinished(other) {
				return nil, nil
			}
			return other, nil
		}
	}
	return nil, nil
}

// markWaitingForSibling says that another DeletionRun does the work.
func markWaitingForSibling(s *scope, other *v1alpha1.DeletionRun) {
	s.MarkWaiting(v1alpha1.ReasonWaitingForDeletionRun,
		fmt.Sprintf("DeletionRun %s destroys this backup already; waiting for what becomes of it", other.Name))
}

// adoptOutcome ends a DeletionRun whose backup another one has destroyed, in the same way, or
// waits for its end.
func (r *Reconciler) adoptOutcome(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if d.Status.BackupUID == "" && d.Spec.BackupUID == "" {
		return false, nil // it has never seen the Backup: what is there now may be another one
	}
	siblings, err := listSiblings(ctx, r.Reader, d) // the Backup is gone, which the cache may know before it knows why
	if err != nil {
		return false, err
	}
	for _, other := range siblings {
		if other.Status.BackupUID == targetOf(d).uid && run.IsPlanned(other) && !run.IsFinished(other) {
			markWaitingForSibling(s, other)
			return true, nil
		}
		if other.Status.BackupUID == targetOf(d).uid && run.IsCompletedOrPartiallyFailed(other) {
			d.Status.LeftBehind = other.Status.LeftBehind
			s.RecordOutcome(run.Outcome{
				Phase: other.GetPhase(), Reason: other.GetPhase(),
				Message: fmt.Sprintf("DeletionRun %s destroyed it: %s", other.Name, run.OutcomeMessage(other)),
			}, r.Now())
			return true, nil
		}
	}
	return false, nil
}
