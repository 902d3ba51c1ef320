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
	b, err := r.getBackup(ctx, d)
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
	r.removeFiles(s, b)
	return conditions.IsTrue(d, v1alpha1.ConditionDataDeleted), nil
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
	called := lifecycle.ExecuteStepWithStore(r.driver, s, stepCall, r.newActionsRequest(b), r.newItemActionsStep(d.Status.ItemActions, r.newBackupSource(ctx, d)))
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

// removedFiles is the result of stepRemove.
type removedFiles struct {
	deletion.Result
	// restores are the Restores whose files were removed.
	restores []v1alpha1.Restore
}

// removeFiles removes the stored files, or records that they are left behind. The Restores whose
// files were removed are deleted once that is recorded.
func (r *Reconciler) removeFiles(s *scope, b *v1alpha1.Backup) {
	d := s.Object
	s.MarkRunning(v1alpha1.ReasonDeleting, "Removing the stored files")
	surveyed := lifecycle.LookupStepResult[surveyResult](r.driver, s, stepSurvey)
	gone := lifecycle.ExecuteStepWithStore(r.driver, s, stepRemove, func(*scope) (deletion.Request, error) { return r.newRequest(d, b), nil },
		func(ctx context.Context, store *storage.Store, request deletion.Request) (removed removedFiles, err error) {
			// No Restore of the backup starts after the survey.
			if surveyed == nil || surveyed.Err != nil || surveyed.Value.hasRestores {
				if removed.restores, err = r.listDeletableRestores(ctx, r.Reader, d, b); err != nil {
					return removed, err
				}
			}
			for i := range removed.restores {
				request.Restores = append(request.Restores, removed.restores[i].Name)
			}
			removed.Result, err = r.Runner.RemoveFiles(ctx, store, request)
			return removed, err
		})
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
		s.AfterStatusUpdate(func(ctx context.Context) error { return r.deleteRestores(ctx, gone.Value.restores) })
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
func (r *Reconciler) newActionsRequest(b *v1alpha1.Backup) func(*scope) (deletion.Request, error) {
	return func(s *scope) (deletion.Request, error) {
		request := r.newRequest(s.Object, b)
		if b == nil || isAbridged(b) {
			return request, nil // the step reads the manifest
		}
		err := addBackupToRequest(&request, b)
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

// newRequest returns the request of a DeletionRun, without the data of the Backup for actions and
// without Restores.
func (r *Reconciler) newRequest(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) deletion.Request {
	return deletion.Request{
		Run: logRun(d), Name: d.Status.StoredName, UID: d.Status.StoredUID, Force: d.Spec.DestroyForeign,
		Complete: b != nil && lifecycle.IsCompletedOrPartiallyFailed(b),
		Actions: lifecycle.NewItemActionSpecs(d, func(pluginObject, _, action string) pluginclient.ResolveFunc[pluginclient.DeleteItemAction] {
			return r.Actions.DeleteItemAction(pluginObject, action)
		}),
	}
}
