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
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// remove removes the Backup and the Restores of it that have ended, and waits until the
// Backup is gone. Its finalizers are released by those that added them.
func (r *Reconciler) remove(ctx context.Context, s *scope) (bool, error) {
	d := s.Object
	if run.Decided(d) {
		return true, nil
	}
	b, err := r.backup(ctx, d)
	if err != nil || b == nil {
		return err == nil, err
	}
	s.Running(v1alpha1.ReasonRemovingObjects, "Removing the objects")
	if !b.DeletionTimestamp.IsZero() {
		if len(b.Finalizers) > 0 && !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerStoredData) {
			r.driver.Release(s) // it is in the hands of others
		}
		s.Running(v1alpha1.ReasonRemovingObjects, fmt.Sprintf("Waiting until Backup %s is gone; it has the finalizers %s", b.Name, strings.Join(b.Finalizers, ", ")))
		return false, nil
	}
	s.Then(func(ctx context.Context) error {
		restores, err := r.restoresOf(ctx, d, b)
		if err != nil {
			return err
		}
		for i := range restores {
			if err := r.delete(ctx, &restores[i]); err != nil {
				return err
			}
		}
		return r.delete(ctx, b)
	})
	return false, nil
}

// restoresOf returns the Restores that go with a backup: those that have ended, of one that
// was complete. Others of its name restored the backup that had the name before.
func (r *Reconciler) restoresOf(ctx context.Context, d *v1alpha1.DeletionRun, b *v1alpha1.Backup) ([]v1alpha1.Restore, error) {
	if b != nil && !run.Succeeded(b) {
		return nil, nil
	}
	restores, err := r.restores(ctx, d)
	return slices.DeleteFunc(restores, func(o v1alpha1.Restore) bool { return !run.Settled(&o) }), err
}

// delete deletes an object, and no other of that name.
func (r *Reconciler) delete(ctx context.Context, object client.Object) error {
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

// finish records the outcome, and lets the DeletionRun go.
func (r *Reconciler) finish(_ context.Context, s *scope) (bool, error) {
	d := s.Object
	if !run.Decided(d) {
		d.Status.LeftBehind = deletion.AddLeft(d.Status.LeftBehind, run.FailedActions(s.Pre)...)
		s.Decide(outcomeOf(d), r.Now())
	}
	s.Done()
	s.Then(func(ctx context.Context) error { return r.driver.LetGo(ctx, d) })
	return true, nil
}

func outcomeOf(d *v1alpha1.DeletionRun) run.Outcome {
	what := "Backup " + d.Status.BackupName + " is destroyed"
	if left := d.Status.LeftBehind; len(left) > 0 {
		return run.Outcome{
			Phase: run.PhasePartiallyFailed, Reason: v1alpha1.ReasonPartiallyFailed,
			Message: fmt.Sprintf("%s, and %s left behind: %s", what, things(len(left)), strings.Join(left, "; ")),
		}
	}
	return run.Outcome{Phase: run.PhaseCompleted, Reason: v1alpha1.ReasonCompleted, Message: what}
}

func things(n int) string {
	if n == 1 {
		return "one thing is"
	}
	return fmt.Sprintf("%d things are", n)
}
