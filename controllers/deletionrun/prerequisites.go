// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// cancelAndAwaitBackup cancels a Backup that is still active, and waits until it is finalized.
func (r *Reconciler) cancelAndAwaitBackup(s *scope, b *v1alpha1.Backup) (ready bool) {
	never := !b.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerRun) // it was deleted before it started
	if b.Spec.ImportedFrom != nil || lifecycle.IsFinalized(b) || never {
		return true
	}
	s.MarkWaiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for Backup %s, which is being canceled: %s", b.Name, b.Status.Message))
	if lifecycle.IsFinished(b) {
		s.MarkWaiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for the remaining work of Backup %s: %s", b.Name, b.Status.Message))
	}
	if b.Spec.DesiredState != v1alpha1.DesiredStateCancel && b.DeletionTimestamp.IsZero() {
		s.AfterStatusUpdate(func(ctx context.Context) error {
			cancel := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))
			if err := r.Client.Patch(ctx, b, cancel); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("canceling Backup %s: %w", b.Name, err)
			}
			return nil
		})
	}
	return false
}

// listRestores returns the Restores of a backup that started or may start.
func listRestores(ctx context.Context, reader client.Reader, d *v1alpha1.DeletionRun) ([]v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := reader.List(ctx, &list, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var of []v1alpha1.Restore
	for i := range list.Items {
		if o := &list.Items[i]; usesBackup(o, d) && (lifecycle.IsPlanned(o) || !lifecycle.IsFinished(o)) {
			of = append(of, list.Items[i])
		}
	}
	return of, nil
}

// usesBackup reports whether a Restore restores the backup of a DeletionRun, as far as is known.
func usesBackup(o *v1alpha1.Restore, d *v1alpha1.DeletionRun) bool {
	if o.Status.StorageLocation == "" {
		return o.Spec.BackupName != "" && o.Spec.BackupName == d.Status.BackupName
	}
	return o.Status.BackupName == d.Status.StoredName && o.Status.StorageLocation == d.Status.StorageLocation
}

// namesOfActiveRestores returns the names of the Restores of a backup that read it.
func namesOfActiveRestores(restores []v1alpha1.Restore) []string {
	var names []string
	for i := range restores {
		if !lifecycle.IsFinished(&restores[i]) {
			names = append(names, restores[i].Name)
		}
	}
	return names
}

// awaitRestores waits for Restores in the cache that read the backup. The survey lists them past
// the cache once the DeletionRun is recorded on the Backup: a Restore that is created later sees
// the DeletionRun, and is rejected.
func (r *Reconciler) awaitRestores(ctx context.Context, s *scope) (ready bool, err error) {
	restores, err := listRestores(ctx, r.Client, s.Object)
	if err != nil {
		return false, err
	}
	names := namesOfActiveRestores(restores)
	if len(names) == 0 {
		return true, nil
	}
	markWaitingForRestores(s, names)
	return false, nil
}

func markWaitingForRestores(s *scope, names []string) {
	s.MarkWaiting(v1alpha1.ReasonWaitingForRestore, "Waiting for Restores that read the backup: "+strings.Join(names, ", "))
}

// endIfProtected ends a DeletionRun that no user requested, if its Backup has become one of the
// last of its Schedule while the DeletionRun waited: newer ones were lost, or deleted by a user.
func (r *Reconciler) endIfProtected(ctx context.Context, s *scope, b *v1alpha1.Backup) (bool, error) {
	d := s.Object
	if d.Spec.Cause != v1alpha1.DeletionCauseExpired && d.Spec.Cause != v1alpha1.DeletionCauseScheduleLimit {
		return false, nil
	}
	by, err := retention.ProtectingSchedule(ctx, r.Client, b, r.Now())
	if by == nil || err != nil {
		return false, err
	}
	s.RecordOutcome(lifecycle.Outcome{
		Phase: v1alpha1.RunPhaseCancelled, Reason: v1alpha1.ReasonKept,
		Message: fmt.Sprintf("Backup %s is kept as one of the newest %d successful Backups of Schedule %s (keepLast)", b.Name, *by.Spec.KeepLast, by.Name),
	}, r.Now())
	return true, nil
}

// awaitLocation waits until files can be deleted in the location. It does not wait if nothing is
// stored there or the data was abandoned.
func (r *Reconciler) awaitLocation(ctx context.Context, s *scope, b *v1alpha1.Backup) (ready bool, err error) {
	where := s.Object.Status.StorageLocation
	if where == "" || isDataAbandoned(s.Object, b) {
		return true, nil
	}
	_, waiting, problems, err := r.driver.ChooseLocation(ctx, s, where, location.ForDeleting)
	if err != nil || waiting {
		return false, err
	}
	if len(problems) > 0 {
		s.MarkWaiting(v1alpha1.ReasonWaitingForLocation, strings.Join(problems, "; ")+"; "+abandonHint(s.Object))
		return false, nil
	}
	return true, nil
}

// isDataAbandoned reports whether a user abandoned the stored data.
func isDataAbandoned(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) bool {
	return d.Annotations[v1alpha1.AnnotationAbandonData] == "true" ||
		(b != nil && b.Annotations[v1alpha1.AnnotationAbandonData] == "true")
}

// abandonHint returns how a user abandons data that cannot be reached.
func abandonHint(d *v1alpha1.DeletionRun) string {
	return fmt.Sprintf("the deletion continues when that is fixed; to delete the objects and leave the stored data behind, "+
		"annotate DeletionRun %s with %s=true", d.Name, v1alpha1.AnnotationAbandonData)
}
