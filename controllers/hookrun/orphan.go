// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// orphanRecheckInterval is how often the controller checks whether the HookRuns of a deleted parent
// have done the owed clean-up.
const orphanRecheckInterval = time.Second

// listSiblings returns the other HookRuns of the same parent.
func (r *Reconciler) listSiblings(ctx context.Context, run *v1alpha1.HookRun) ([]v1alpha1.HookRun, error) {
	all, err := r.listHookRuns(ctx, run.Namespace, run.Spec.ParentRef.UID)
	return slices.DeleteFunc(all, func(other v1alpha1.HookRun) bool { return other.UID == run.UID }), err
}

// isOrphanedCleanupOwed reports whether a HookRun whose parent no longer exists must still run: its
// Pre action was called, or may have been called, and no user has abandoned the clean-up.
func isOrphanedCleanupOwed(run *v1alpha1.HookRun, siblings []v1alpha1.HookRun) bool {
	if !run.Spec.Owed || run.Status.CompletionTimestamp != nil || run.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true" {
		return false
	}
	if run.Status.StartTimestamp != nil {
		return true
	}
	first := preHookRunFor(run, siblings)
	return run.Spec.DesiredState != v1alpha1.HookDesiredStateCancel && (first == nil || first.Status.StartTimestamp != nil)
}

// preHookRunFor returns the Pre HookRun that belongs to an owed HookRun; nil if it no longer
// exists.
func preHookRunFor(run *v1alpha1.HookRun, siblings []v1alpha1.HookRun) *v1alpha1.HookRun {
	pre, isPost := preHookPoints[run.Spec.Hook]
	for i := range siblings {
		if isPost && siblings[i].Spec.Hook == pre && siblings[i].Spec.ActionName == run.Spec.ActionName {
			return &siblings[i]
		}
	}
	return nil
}

// startOrphanedCleanup starts an owed HookRun once its Pre HookRun has finished. It returns false
// if the HookRun may already run.
func (r *Reconciler) startOrphanedCleanup(ctx context.Context, run *v1alpha1.HookRun, siblings []v1alpha1.HookRun) (stays bool, after time.Duration, err error) {
	if first := preHookRunFor(run, siblings); first != nil && first.Status.CompletionTimestamp == nil {
		return true, orphanRecheckInterval, nil
	}
	if run.Spec.DesiredState != v1alpha1.HookDesiredStateWait {
		return false, 0, nil
	}
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	run.Spec.DesiredState = v1alpha1.HookDesiredStateRun
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, run, patch)); err != nil {
		return true, 0, fmt.Errorf("starting the owed HookRun %s: %w", run.Name, err)
	}
	r.Recorder.Eventf(run, nil, corev1.EventTypeWarning, v1alpha1.ReasonCleanupPending, string(run.Spec.Hook),
		"Its %s %s was deleted without its finalizer; running the owed clean-up anyway. If it can never succeed, annotate this HookRun with %s=true",
		run.Spec.ParentRef.Kind, run.Spec.ParentRef.Name, v1alpha1.AnnotationAbandonCleanup)
	return true, 0, nil
}

// finishOrphan records that a HookRun whose parent no longer exists will not continue.
func (r *Reconciler) finishOrphan(ctx context.Context, run *v1alpha1.HookRun) error {
	if run.Status.CompletionTimestamp != nil {
		return nil
	}
	before := run.DeepCopy()
	finishWithoutCall(run, r.Now())
	if current, err := r.patchStatus(ctx, before, run, decision{}); !current || err != nil {
		return err
	}
	r.emitCleanupAbandoned(run)
	return nil
}

// lastParentState returns the last state of a deleted parent, or else a stub with the fields that the
// HookRun has. After a restart of the operator, the parent's namespaces are unknown.
func (r *Reconciler) lastParentState(run *v1alpha1.HookRun) client.Object {
	if last, found := r.deletedParents.Load(run.Spec.ParentRef.UID); found {
		if parent, ok := last.(client.Object); ok {
			copied, _ := parent.DeepCopyObject().(client.Object) // a copy has the type of the original
			return copied
		}
	}
	return newParentStub(run)
}
