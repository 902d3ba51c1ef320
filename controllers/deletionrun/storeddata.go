// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// reconcileStoredData calls DeleteItemActions for the archived objects, and then removes the
// stored files.
func (r *Reconciler) reconcileStoredData(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if lifecycle.IsFinished(d) || conditions.IsTrue(d, v1alpha1.ConditionDataDeleted) {
		return true, nil
	}
	b, err := r.getLiveBackup(ctx, d)
	if err != nil {
		return false, err
	}
	if r.endIfDataUnreachable(ctx, s, b) {
		return conditions.IsTrue(d, v1alpha1.ConditionDataDeleted), nil
	}
	if !r.driver.AcquireSlot(s) {
		r.driver.MarkWaitingForSlot(s)
		return false, nil
	}
	if len(d.Status.ItemActions) > 0 && !lifecycle.HasProcessedItems(d) {
		return false, r.runItemActions(ctx, s, b)
	}
	r.removeFiles(ctx, s, b)
	return false, nil // objects are deleted once the removal of the files is recorded
}

// endIfDataUnreachable reports whether the work on stored data has to end, because there is none
// or it cannot be reached anymore. The work has ended when the condition DataDeleted is True.
func (r *Reconciler) endIfDataUnreachable(ctx context.Context, s *scope, b *v1alpha1.Backup) bool {
	d := s.Object
	where := d.Status.StorageLocation
	if where == "" || (d.Status.StoredUID == "" && !d.Spec.DestroyForeign) {
		conditions.Set(d, v1alpha1.ConditionDataDeleted, metav1.ConditionTrue, v1alpha1.ReasonDataDeleted, "Nothing was stored")
		return true
	}
	why := "abandoned with the annotation " + v1alpha1.AnnotationAbandonData
	if !isDataAbandoned(d, b) {
		if _, there := r.driver.LocationPrefix(ctx, d); there || d.DeletionTimestamp.IsZero() {
			return false
		}
		// When a namespace is deleted, the location may be deleted first, and no other can be
		// created in its place.
		why = "the location does not exist, and the DeletionRun is being deleted, too"
	}
	if r.driver.CancelSteps(s, stepCall, stepRemove) {
		s.MarkRunning(v1alpha1.ReasonDeleting, "Abandoning the stored data")
		return true
	}
	r.recordDataLeftBehind(s, fmt.Sprintf("the files of backup %s in BackupStorageLocation %s: %s", d.Status.StoredName, where, why))
	return true
}

// recordDataLeftBehind records in the status and in an event that the stored data is left
// behind.
func (r *Reconciler) recordDataLeftBehind(s *scope, what string) {
	d := s.Object
	d.Status.LeftBehind = deletion.AppendLeftovers(d.Status.LeftBehind, what)
	conditions.Set(d, v1alpha1.ConditionDataDeleted, metav1.ConditionTrue, v1alpha1.ReasonDataLeftBehind, "Left behind: "+what)
	s.AfterStatusUpdate(func(context.Context) error {
		r.Recorder.Eventf(d, nil, corev1.EventTypeWarning, v1alpha1.ReasonDataLeftBehind, "Delete", "%s", lifecycle.TruncateEventNote("Left behind: "+what))
		return nil
	})
}

// runItemActions calls the planned actions for the archived objects, and records their results
// before any file is removed: after that, the archive cannot be read again.
func (r *Reconciler) runItemActions(ctx context.Context, s *scope, b *v1alpha1.Backup) error {
	d := s.Object
	if !r.driver.HasStepStarted(s, stepCall) {
		switch admission, err := r.driver.AdmitAttempt(ctx, s, stepCall); admission {
		case lifecycle.AttemptHeld:
			return err
		case lifecycle.AttemptAdmitted:
			d.Status.Attempts++
		case lifecycle.AttemptRefused: // the step returns the error
		}
	}
	s.MarkRunning(v1alpha1.ReasonDeleting, "Calling DeleteItemActions for the archived objects")
	called := lifecycle.ExecuteStepWithStore(r.driver, s, stepCall, r.newActionsRequest(ctx, b), r.newItemActionsStep(d.Status.ItemActions, r.newBackupSource(ctx, d)))
	switch {
	case called == nil:
	case called.Err != nil:
		r.retryStep(s, stepCall, "Calling DeleteItemActions for the archived objects", called.Err)
	default:
		for _, did := range called.Value.Actions {
			d.Status.DeleteItemActions = append(d.Status.DeleteItemActions, v1alpha1.DeletionItemAction{
				ActionName: did.Name, PluginRef: v1alpha1.PluginReference{Name: did.Plugin},
				Items: did.Items, Failed: did.Failed, Message: did.Message,
			})
		}
		d.Status.LeftBehind = deletion.AppendLeftovers(d.Status.LeftBehind, called.Value.Leftovers...)
		conditions.Set(d, v1alpha1.ConditionItemsProcessed, metav1.ConditionTrue, v1alpha1.ReasonObjectsProcessed, "DeleteItemActions were called for all archived objects")
	}
	return nil
}

// newItemActionsStep returns the work of calling item actions. If the Backup does not exist or
// is abridged, the actions receive the one in the manifest.
func (r *Reconciler) newItemActionsStep(
	planned []v1alpha1.PlannedItemAction, from backupimport.Source,
) func(context.Context, *storage.Store, deletion.Request) (deletion.Result, error) {
	return func(ctx context.Context, store *storage.Store, request deletion.Request) (deletion.Result, error) {
		if err := lifecycle.WaitForPlugins(ctx, r.Client, r.Actions, planned); err != nil {
			return deletion.Result{}, err
		}
		if request.Backup == nil {
			found, err := r.Runner.Inspect(ctx, store, request.Name)
			if err == nil {
				err = addBackupToRequest(&request, toBackup(from, found))
			}
			if err != nil {
				return deletion.Result{}, err
			}
		}
		return r.Runner.CallActions(ctx, store, request)
	}
}

// removeFiles removes the stored files, or records that they are left behind.
func (r *Reconciler) removeFiles(ctx context.Context, s *scope, b *v1alpha1.Backup) {
	d := s.Object
	s.MarkRunning(v1alpha1.ReasonDeleting, "Removing the stored files")
	gone := lifecycle.ExecuteStepWithStore(r.driver, s, stepRemove, func(s *scope) (deletion.Request, error) { return r.newRemovalRequest(ctx, s.Object, b) }, r.Runner.RemoveFiles)
	damaged := (*storage.CorruptError)(nil)
	switch {
	case gone == nil:
	case errors.As(gone.Err, &damaged):
		r.recordDataLeftBehind(s, fmt.Sprintf("the files of backup %s in BackupStorageLocation %s: %s; a DeletionRun with spec.destroyForeign destroys them regardless of their owner",
			d.Status.StoredName, d.Status.StorageLocation, r.Redactor.String(damaged.Error())))
	case gone.Err != nil:
		r.retryStep(s, stepRemove, "Removing the stored files", gone.Err)
	case gone.Value.NameConflict != "":
		conditions.Set(d, v1alpha1.ConditionDataDeleted, metav1.ConditionTrue, v1alpha1.ReasonDataDeleted, "Nothing of the backup was stored: "+gone.Value.NameConflict)
	default:
		conditions.Set(d, v1alpha1.ConditionDataDeleted, metav1.ConditionTrue, v1alpha1.ReasonDataDeleted, "The stored files were removed")
	}
}

// retryStep schedules a retry of a step that failed because of the store, and releases the slot.
// Other runs continue meanwhile: their backups may be stored elsewhere.
func (r *Reconciler) retryStep(s *scope, step, what string, err error) {
	if lifecycle.IsCrashed(err) {
		s.RecordOutcome(r.driver.FailedOutcome(s, what+" failed", err), r.Now())
		return
	}
	s.MarkRunning(v1alpha1.ReasonDeleting, fmt.Sprintf("%s failed, retrying: %s; %s", what, r.Redactor.String(err.Error()), abandonHint(s.Object)))
	r.driver.RetryForever(s, step)
	r.driver.ReleaseSlot(s)
}

// newActionsRequest returns a function that creates the request for item actions; they receive
// the Backup.
func (r *Reconciler) newActionsRequest(ctx context.Context, b *v1alpha1.Backup) func(*scope) (deletion.Request, error) {
	return func(s *scope) (deletion.Request, error) {
		request, err := r.newRemovalRequest(ctx, s.Object, b)
		if err != nil || b == nil || isAbridged(b) {
			return request, err // the step reads the manifest
		}
		err = addBackupToRequest(&request, b)
		return request, err
	}
}

// addBackupToRequest adds the data of the Backup for actions.
func addBackupToRequest(request *deletion.Request, b *v1alpha1.Backup) (err error) {
	for i := range request.Actions {
		request.Actions[i].Parameters = lifecycle.ToStringMap(b.Spec.Parameters[request.Actions[i].Name])
	}
	request.Backup, err = lifecycle.BackupToVelero(b)
	return err
}

// newRemovalRequest returns the request of a DeletionRun, without the data of the Backup for
// actions.
func (r *Reconciler) newRemovalRequest(ctx context.Context, d *v1alpha1.DeletionRun, b *v1alpha1.Backup) (deletion.Request, error) {
	restores, err := r.listDeletableRestores(ctx, d, b)
	if err != nil {
		return deletion.Request{}, err
	}
	request := deletion.Request{
		Key: string(d.UID), Name: d.Status.StoredName, UID: d.Status.StoredUID, Force: d.Spec.DestroyForeign,
		Complete: b != nil && lifecycle.IsCompletedOrPartiallyFailed(b),
		Actions: lifecycle.NewItemActionSpecs(d, func(pluginObject, _, action string) pluginclient.ResolveFunc[pluginclient.DeleteItemAction] {
			return r.Actions.DeleteItemAction(pluginObject, action)
		}),
	}
	for i := range restores {
		request.Restores = append(request.Restores, restores[i].Name)
	}
	return request, nil
}
