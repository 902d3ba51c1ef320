// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// recordSyncResult records the result of a sync, if it changed.
func (r *Reconciler) recordSyncResult(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, ended runner.Outcome[syncResult]) error {
	problem := ended.Value.problem
	if ended.Err != nil {
		ctrl.LoggerFrom(ctx).Error(ended.Err, "Syncing a location failed with an internal error")
		problem = errInternal
	}
	says := ended.Value.report.syncedCondition()
	if problem != nil {
		says = syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonSyncFailed, executor.OneLine(r.Redactor.String(problem.Error()))}
	}
	before := bsl.DeepCopy()
	conditions.Set(bsl, v1alpha1.ConditionSynced, says.status, says.reason, says.message)
	if equality.Semantic.DeepEqual(before.Status, bsl.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, bsl, patch); err != nil {
		return fmt.Errorf("writing the status of location %s: %w", bsl.Name, err)
	}
	limited := says.reason == v1alpha1.ReasonImportLimited && !hasSyncedReason(before, says.reason) // its numbers change all the time
	if says.status == metav1.ConditionFalse || limited {
		r.Recorder.Eventf(bsl, nil, corev1.EventTypeWarning, says.reason, "Sync", "%s", lifecycle.TruncateEventNote(says.message))
	}
	return nil
}

// hasSyncedReason reports whether the condition Synced of a location has the given reason.
func hasSyncedReason(bsl *v1alpha1.BackupStorageLocation, reason string) bool {
	synced := conditions.Get(bsl, v1alpha1.ConditionSynced)
	return synced != nil && synced.Reason == reason
}

var errInternal = errors.New("internal error; see the operator's log")

// ignoreConflict drops the error of a write that conflicts with a newer one: the watch delivers
// the newer object.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// pendingImportPredicate passes objects that wait for the completion of their import.
func pendingImportPredicate() predicate.Predicate {
	wants := func(object client.Object) bool {
		b, ok := object.(*v1alpha1.Backup)
		return ok && isPendingImport(b) && !hasStalledCondition(b)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return wants(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return wants(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// backupToLocation maps a Backup to its location, and requests a sync.
func (r *Reconciler) backupToLocation(_ context.Context, object client.Object) []reconcile.Request {
	b, ok := object.(*v1alpha1.Backup)
	if !ok {
		return nil
	}
	return r.enqueueLocation(types.NamespacedName{Namespace: b.Namespace, Name: locationName(b)})
}

// failedDeletionRunPredicate passes DeletionRuns that finished and left the backup in place. After
// other DeletionRuns there is nothing to import.
func failedDeletionRunPredicate() predicate.Predicate {
	is := func(object client.Object) bool {
		d, ok := object.(*v1alpha1.DeletionRun)
		return ok && lifecycle.IsFinished(d) && !lifecycle.IsCompletedOrPartiallyFailed(d)
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectNew) && !is(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// deletionRunToLocation maps a DeletionRun to its location, and requests a sync.
func (r *Reconciler) deletionRunToLocation(_ context.Context, object client.Object) []reconcile.Request {
	d, ok := object.(*v1alpha1.DeletionRun)
	if !ok {
		return nil
	}
	return r.enqueueLocation(types.NamespacedName{Namespace: d.Namespace, Name: cmp.Or(d.Status.StorageLocation, d.Spec.StorageLocation)})
}

func (r *Reconciler) enqueueLocation(key types.NamespacedName) []reconcile.Request {
	if key.Name == "" {
		return nil
	}
	r.locations.requestSync(key)
	return []reconcile.Request{{NamespacedName: key}}
}

// stallImportsWithoutLocation marks pending imports from a location that does not exist.
func (r *Reconciler) stallImportsWithoutLocation(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	var list v1alpha1.BackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the Backups: %w", err)
	}
	message := fmt.Sprintf("BackupStorageLocation %q does not exist; create it, or recreate this object with another name in spec.importedFrom", key.Name)
	for i := range list.Items {
		b := &list.Items[i]
		if !isPendingImport(b) || hasStalledCondition(b) || locationName(b) != key.Name || b.DeletionTimestamp != nil {
			continue
		}
		if _, err := r.syncer.patchBackupStatus(ctx, b, func(now *v1alpha1.Backup) { markStalled(now, v1alpha1.ReasonWaitingForLocation, message) }); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}
