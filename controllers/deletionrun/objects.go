// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// reconcileDeadline ends a DeletionRun that has reached its deadline. Its creator has to create
// another one, which retention does automatically.
func (r *Reconciler) reconcileDeadline(_ context.Context, s *scope) (bool, error) {
	if !s.IsDeadlineExceeded() {
		return true, nil
	}
	busy := r.driver.CancelSteps(s, stepCall, stepRemove)
	if r.driver.CancelPreActions(s) || busy {
		s.MarkRunning(v1alpha1.ReasonCancelling, "Canceling: "+s.CancelReason())
		return false, nil
	}
	s.RecordOutcome(s.CancelledOutcome(), r.Now())
	return true, nil
}

// reconcileObjectDeletion deletes the Backup and its finished Restores, and waits until the
// Backup does not exist anymore. Other finalizers of the Backup are removed by their owners.
func (r *Reconciler) reconcileObjectDeletion(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if lifecycle.IsFinished(d) {
		return true, nil
	}
	b, err := r.getBackup(ctx, d)
	if err != nil || b == nil {
		return err == nil, err
	}
	s.MarkRunning(v1alpha1.ReasonRemovingObjects, "Removing the objects")
	if !b.DeletionTimestamp.IsZero() {
		if len(b.Finalizers) > 0 && !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerStoredData) {
			r.driver.ReleaseSlot(s) // others have to remove their finalizers
		}
		if slices.Equal(b.Finalizers, []string{v1alpha1.FinalizerStoredData}) {
			return false, nil // the controller of retention removes it
		}
		s.MarkRunning(v1alpha1.ReasonRemovingObjects, fmt.Sprintf("Waiting for Backup %s to be deleted; it has the finalizers %s", b.Name, strings.Join(b.Finalizers, ", ")))
		return false, nil
	}
	s.AfterStatusUpdate(func(ctx context.Context) error {
		// Those in the cache suffice: this process deleted the Restores whose files it removed.
		restores, err := r.listDeletableRestores(ctx, r.Client, d, b)
		if err != nil {
			return err
		}
		if err := r.deleteRestores(ctx, restores); err != nil {
			return err
		}
		return r.deleteReleasedBackup(ctx, b)
	})
	return false, nil
}

// deleteReleasedBackup deletes a Backup, and first removes the finalizer of the claim: its data is
// deleted. If something else changed the Backup meanwhile, the watch delivers that.
func (r *Reconciler) deleteReleasedBackup(ctx context.Context, b *v1alpha1.Backup) error {
	released := b.DeepCopy()
	if controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerStoredData) {
		err := r.Client.Patch(ctx, released, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("removing the finalizer of Backup %s: %w", b.Name, err)
		}
	}
	return r.deleteObject(ctx, released)
}

func (r *Reconciler) deleteRestores(ctx context.Context, restores []v1alpha1.Restore) error {
	for i := range restores {
		if err := r.deleteObject(ctx, &restores[i]); err != nil {
			return err
		}
	}
	return nil
}

// listDeletableRestores returns the Restores that are deleted with a backup: the finalized ones,
// if the backup was complete. Restores of a backup that was not complete restored an earlier
// backup with the same name.
func (r *Reconciler) listDeletableRestores(ctx context.Context, reader client.Reader, d *v1alpha1.DeletionRun, b *v1alpha1.Backup) ([]v1alpha1.Restore, error) {
	if b != nil && !lifecycle.IsCompletedOrPartiallyFailed(b) {
		return nil, nil
	}
	all, err := listRestores(ctx, reader, d)
	return slices.DeleteFunc(all, func(o v1alpha1.Restore) bool { return !lifecycle.IsFinalized(&o) }), err
}

// deleteObject deletes an object, and no other object of the same name.
func (r *Reconciler) deleteObject(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// reconcileOutcome records the outcome, and removes the finalizer of the DeletionRun.
func (r *Reconciler) reconcileOutcome(_ context.Context, s *scope) (bool, error) {
	d := s.Object
	if !lifecycle.IsFinished(d) {
		d.Status.LeftBehind = deletion.AppendLeftovers(d.Status.LeftBehind, lifecycle.FailedActionMessages(s.Pre)...)
		recordLeftoverProblems(d, r.Redactor)
		s.RecordOutcome(outcomeForLeftovers(d), r.Now())
	}
	r.driver.Finalize(s)
	return true, nil
}

func outcomeForLeftovers(d *v1alpha1.DeletionRun) lifecycle.Outcome {
	what := "Backup " + d.Status.BackupName + " is destroyed"
	if left := d.Status.LeftBehind; len(left) > 0 {
		return lifecycle.Outcome{
			Phase: v1alpha1.RunPhasePartiallyFailed, Reason: v1alpha1.ReasonPartiallyFailed,
			Message: fmt.Sprintf("%s, and %s left behind: %s", what, leftoverCount(len(left)), strings.Join(left, "; ")),
		}
	}
	return lifecycle.Outcome{Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted, Message: what}
}

// recordLeftoverProblems records what is left behind as errors.
func recordLeftoverProblems(d *v1alpha1.DeletionRun, redactor *redact.Redactor) {
	var found results.Results
	for _, what := range d.Status.LeftBehind {
		found.Errors = append(found.Errors, results.Problem{Reason: results.ReasonLeftBehind, Message: what})
	}
	lifecycle.RecordProblems(&d.Status.RunStatus, found, redactor)
}

func leftoverCount(n int) string {
	if n == 1 {
		return "one thing is"
	}
	return fmt.Sprintf("%d things are", n)
}
