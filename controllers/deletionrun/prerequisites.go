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
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// cancelAndAwaitBackup cancels a Backup that is still being made, and waits until it owes nothing.
func (r *Reconciler) cancelAndAwaitBackup(s *scope, b *v1alpha1.Backup) (ready bool) {
	never := !b.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerRun) // it was deleted before it began
	if b.Spec.ImportedFrom != nil || run.IsFinalized(b) || never {
		return true
	}
	s.MarkWaiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for Backup %s, which is being cancelled: %s", b.Name, b.Status.Message))
	if run.IsFinished(b) {
		s.MarkWaiting(v1alpha1.ReasonWaitingForBackup, fmt.Sprintf("Waiting for what Backup %s still has to do: %s", b.Name, b.Status.Message))
	}
	if b.Spec.DesiredState != v1alpha1.DesiredStateCancel && b.DeletionTimestamp.IsZero() {
		s.AfterStatusUpdate(func(ctx context.Context) error {
			cancel := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))
			if err := r.Client.Patch(ctx, b, cancel); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("cancelling Backup %s: %w", b.Name, err)
			}
			return nil
		})
	}
	return false
}

// listRestores returns the Restores of a backup that began or may begin.
func listRestores(ctx context.Context, reader client.Reader, d *v1alpha1.DeletionRun) ([]v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := reader.List(ctx, &list, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var of []v1alpha1.Restore
	for i := range list.Items {
		if o := &list.Items[i]; usesBackup(o, d) && (run.IsPlanned(o) || !run.IsFinished(o)) {
			of = append(of, list.Items[i])
		}
	}
	return of, nil
}

// usesBackup says whether a Restore restores the backup of a DeletionRun, as far as is known.
func usesBackup(o *v1alpha1.Restore, d *v1alpha1.DeletionRun) bool {
	if o.Status.StorageLocation == "" {
		return o.Spec.BackupName != "" && o.Spec.BackupName == d.Status.BackupName
	}
	return o.Status.BackupName == d.Status.StoredName && o.Status.StorageLocation == d.Status.StorageLocation
}

// awaitRestores waits for Restores that read the backup. A Restore that comes later is
// refused, as it sees this DeletionRun. The API server is asked only when the cache shows none:
// a DeletionRun may wait for long.
func (r *Reconciler) awaitRestores(ctx context.Context, s *scope) (ready bool, err error) {
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		all, err := listRestores(ctx, reader, s.Object)
		if err != nil {
			return false, err
		}
		var reading []string
		for i := range all {
			if !run.IsFinished(&all[i]) {
				reading = append(reading, all[i].Name)
			}
		}
		if len(reading) > 0 {
			s.MarkWaiting(v1alpha1.ReasonWaitingForRestore, "Waiting for what reads the backup: Restore "+strings.Join(reading, ", "))
			return false, nil
		}
	}
	return true, nil
}

// endIfProtected ends a DeletionRun that nobody asked for if its Backup has become one of the last of its
// Schedule while this one waited: newer ones were lost, or removed by hand.
func (r *Reconciler) endIfProtected(ctx context.Context, s *scope, b *v1alpha1.Backup) (bool, error) {
	d := s.Object
	if d.Spec.Cause != v1alpha1.DeletionCauseExpired && d.Spec.Cause != v1alpha1.DeletionCauseScheduleLimit {
		return false, nil
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	by, err := destroy.ProtectingSchedule(ctx, r.Client, b, deletions.Items, r.Now())
	if by == nil || err != nil {
		return false, err
	}
	s.RecordOutcome(run.Outcome{
		Phase: run.PhaseCancelled, Reason: v1alpha1.ReasonKept,
		Message: fmt.Sprintf("Backup %s is kept as one of the newest %d that succeeded of Schedule %s (keepLast)", b.Name, *by.Spec.KeepLast, by.Name),
	}, r.Now())
	return true, nil
}

// awaitLocation waits until files can be deleted in the location, unless there is nothing in it or
// the data was given up.
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

// isDataAbandoned says whether a person gave the stored data up.
func isDataAbandoned(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) bool {
	return d.Annotations[v1alpha1.AnnotationAbandonData] == "true" ||
		(b != nil && b.Annotations[v1alpha1.AnnotationAbandonData] == "true")
}

// abandonHint says how a person gives up what can not be reached.
func abandonHint(d *v1alpha1.DeletionRun) string {
	return fmt.Sprintf("the deletion goes on when that is mended; to remove the objects and leave the stored data, "+
		"annotate DeletionRun %s with %s=true", d.Name, v1alpha1.AnnotationAbandonData)
}
