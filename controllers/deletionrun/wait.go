// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// siblings returns the other DeletionRuns for the same backup, past the cache: one that
// was created a moment ago counts.
func (r *Reconciler) siblings(ctx context.Context, d *v1alpha1.DeletionRun) ([]v1alpha1.DeletionRun, error) {
	var list v1alpha1.DeletionRunList
	if err := r.Reader.List(ctx, &list, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	var same []v1alpha1.DeletionRun
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != d.UID && sameBackup(d, other) {
			same = append(same, *other)
		}
	}
	return same, nil
}

// sameBackup says whether two DeletionRuns mean one backup, as far as they say.
func sameBackup(a, b *v1alpha1.DeletionRun) bool {
	one, other := meant(a), meant(b)
	if one.uid != "" && other.uid != "" {
		return one.uid == other.uid
	}
	return one.name == other.name && (one.location == "" || other.location == "" || one.location == other.location)
}

type target struct{ uid, name, location string }

// meant returns what a DeletionRun found out about its backup, or else what it was told.
func meant(d *v1alpha1.DeletionRun) target {
	t := target{uid: d.Spec.BackupUID, name: d.Spec.BackupName, location: d.Spec.StorageLocation}
	if d.Status.BackupUID != "" {
		t = target{uid: d.Status.BackupUID, name: d.Spec.BackupName, location: d.Status.StorageLocation}
	}
	return t
}

// older says which of two DeletionRuns does the work.
func older(a, b *v1alpha1.DeletionRun) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// awaitOlder waits for a DeletionRun that has the same backup and came first, unless this one
// has claimed it already.
func (r *Reconciler) awaitOlder(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	if b.Annotations[v1alpha1.AnnotationDeletedBy] == string(s.Object.UID) {
		return true, nil
	}
	siblings, err := r.siblings(ctx, s.Object)
	if err != nil {
		return false, err
	}
	for i := range siblings {
		other := &siblings[i]
		if !run.Decided(other) && (older(other, s.Object) || run.Planned(other)) {
			s.Waiting(v1alpha1.ReasonWaitingForDeletionRun,
				fmt.Sprintf("DeletionRun %s destroys this backup already; waiting for what becomes of it", other.Name))
			return false, nil
		}
	}
	return true, nil
}

// claim notes on the Backup which DeletionRun destroys it, so that of two that were
// created at the same moment one waits.
func (r *Reconciler) claim(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	d := s.Object
	by := b.Annotations[v1alpha1.AnnotationDeletedBy]
	if by == string(d.UID) {
		return true, nil
	}
	siblings, err := r.siblings(ctx, d)
	if err != nil {
		return false, err
	}
	for i := range siblings {
		if other := &siblings[i]; string(other.UID) == by && !run.Decided(other) {
			s.Waiting(v1alpha1.ReasonWaitingForDeletionRun,
				fmt.Sprintf("DeletionRun %s destroys this backup already; waiting for what becomes of it", other.Name))
			return false, nil
		}
	}
	claimed := b.DeepCopy()
	if claimed.Annotations == nil {
		claimed.Annotations = map[string]string{}
	}
	claimed.Annotations[v1alpha1.AnnotationDeletedBy] = string(d.UID)
	s.Then(func(ctx context.Context) error {
		err := r.Client.Patch(ctx, claimed, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // the next pass sees what changed
		}
		if err != nil {
			return fmt.Errorf("noting on Backup %s that it is being destroyed: %w", b.Name, err)
		}
		return nil
	})
	s.Again(1)
	return false, nil
}

// takeOver ends a DeletionRun whose backup another one has destroyed, in the same way.
func (r *Reconciler) takeOver(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if d.Status.BackupUID == "" && d.Spec.BackupUID == "" {
		return false, nil // it has never seen the Backup: what is there now may be another one
	}
	siblings, err := r.siblings(ctx, d)
	if err != nil {
		return false, err
	}
	for i := range siblings {
		other := &siblings[i]
		if other.Status.BackupUID == meant(d).uid && run.Succeeded(other) {
			d.Status.LeftBehind = other.Status.LeftBehind
			s.Decide(run.Outcome{
				Phase: other.GetPhase(), Reason: other.GetPhase(),
				Message: fmt.Sprintf("DeletionRun %s destroyed it: %s", other.Name, run.OutcomeMessage(other)),
			}, r.Now())
			return true, nil
		}
	}
	return false, nil
}

// awaitBackup cancels a Backup that is still being made, and waits until it owes nothing.
func (r *Reconciler) awaitBackup(s *scope, b *v1alpha1.Backup) (ready bool) {
	if b.Spec.ImportedFrom != nil || run.Settled(b) {
		return true
	}
	s.Waiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for Backup %s, which is being cancelled: %s", b.Name, b.Status.Message))
	if run.Decided(b) {
		s.Waiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for what Backup %s still has to do: %s", b.Name, b.Status.Message))
	}
	if b.Spec.DesiredState != v1alpha1.DesiredStateCancel && b.DeletionTimestamp.IsZero() {
		s.Then(func(ctx context.Context) error {
			cancel := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))
			if err := r.Client.Patch(ctx, b, cancel); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("cancelling Backup %s: %w", b.Name, err)
			}
			return nil
		})
	}
	return false
}

// restores returns the Restores of a backup that began or may begin, past the cache.
func (r *Reconciler) restores(ctx context.Context, d *v1alpha1.DeletionRun) ([]v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := r.Reader.List(ctx, &list, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var of []v1alpha1.Restore
	for i := range list.Items {
		if o := &list.Items[i]; reads(o, d) && (run.Planned(o) || !run.Decided(o)) {
			of = append(of, list.Items[i])
		}
	}
	return of, nil
}

// reads says whether a Restore restores the backup of a DeletionRun, as far as is known.
func reads(o *v1alpha1.Restore, d *v1alpha1.DeletionRun) bool {
	if o.Status.StorageLocation == "" {
		return o.Spec.BackupName != "" && o.Spec.BackupName == d.Status.BackupName
	}
	return o.Status.BackupName == d.Status.StoredName && o.Status.StorageLocation == d.Status.StorageLocation
}

// awaitRestores waits for Restores that read the backup. A Restore that comes later is
// refused, as it sees this DeletionRun.
func (r *Reconciler) awaitRestores(ctx context.Context, s *scope) (ready bool, err error) {
	restores, err := r.restores(ctx, s.Object)
	if err != nil {
		return false, err
	}
	var reading []string
	for i := range restores {
		if !run.Decided(&restores[i]) {
			reading = append(reading, restores[i].Name)
		}
	}
	if len(reading) == 0 {
		return true, nil
	}
	s.Waiting(v1alpha1.ReasonWaitingForRestore, "Waiting for what reads the backup: Restore "+strings.Join(reading, ", "))
	return false, nil
}

// awaitLocation waits until the location can be written, unless there is nothing in it or
// the data was given up.
func (r *Reconciler) awaitLocation(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	where := s.Object.Status.StorageLocation
	if where == "" || abandoned(s.Object, b) {
		return true, nil
	}
	_, waiting, problems, err := r.driver.ChooseLocation(ctx, s, where, true)
	if err != nil || waiting {
		return false, err
	}
	if len(problems) > 0 {
		s.Waiting(v1alpha1.ReasonWaitingForLocation, strings.Join(problems, "; ")+"; "+escape(s.Object))
		return false, nil
	}
	return true, nil
}

// abandoned says whether a person gave the stored data up.
func abandoned(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) bool {
	return d.Annotations[v1alpha1.AnnotationAbandonData] == "true" ||
		(b != nil && b.Annotations[v1alpha1.AnnotationAbandonData] == "true")
}

// escape says how a person gives up what can not be reached.
func escape(d *v1alpha1.DeletionRun) string {
	return fmt.Sprintf("the deletion goes on when that is mended; to remove the objects and leave the stored data, "+
		"annotate DeletionRun %s with %s=true", d.Name, v1alpha1.AnnotationAbandonData)
}
