// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// orphanRecheckInterval is the time between two looks whether the runs of a subject that is gone have
// done what is owed.
const orphanRecheckInterval = time.Second

// listSiblings returns the other runs of the subject of a run.
func (r *Reconciler) listSiblings(ctx context.Context, run *v1alpha1.HookRun) ([]v1alpha1.HookRun, error) {
	var list v1alpha1.HookRunList
	err := r.Client.List(ctx, &list, client.InNamespace(run.Namespace), client.MatchingLabels{v1alpha1.LabelParentUID: run.Spec.Subject.UID})
	if err != nil {
		return nil, fmt.Errorf("listing the other HookRuns of %s %s: %w", run.Spec.Subject.Kind, run.Spec.Subject.Name, err)
	}
	others := list.Items[:0]
	for _, other := range list.Items {
		// Others may label a HookRun, and not change what it is for.
		if other.UID != run.UID && other.Spec.Subject.UID == run.Spec.Subject.UID {
			others = append(others, other)
		}
	}
	return others, nil
}

// isOrphanedCleanupOwed reports whether a run whose subject is gone must run all the same: its other half
// was called, or it is unknown whether it was, and no person has given it up.
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

// preHookRunFor returns the other half of an owed run; nil if it is gone.
func preHookRunFor(run *v1alpha1.HookRun, siblings []v1alpha1.HookRun) *v1alpha1.HookRun {
	after, isPost := strings.CutPrefix(string(run.Spec.Hook), "Post")
	for i := range siblings {
		if isPost && string(siblings[i].Spec.Hook) == "Pre"+after && siblings[i].Spec.PluginName == run.Spec.PluginName {
			return &siblings[i]
		}
	}
	return nil
}

// startOrphanedCleanup has an owed run run once its first half has ended, and returns false when it may.
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
		return true, 0, fmt.Errorf("running the owed HookRun %s: %w", run.Name, err)
	}
	r.Recorder.Eventf(run, nil, corev1.EventTypeWarning, v1alpha1.ReasonCleanupPending, string(run.Spec.Hook),
		"Its %s %s was removed by force, and it runs all the same. If it can never work, annotate this HookRun with %s=true",
		run.Spec.Subject.Kind, run.Spec.Subject.Name, v1alpha1.AnnotationAbandonCleanup)
	return true, 0, nil
}

// finishOrphan records that a run will not go on whose subject is gone.
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

// deletedParentCache remembers what Backups and Restores were like that were removed by force while they
// owed something. It is safe for concurrent use.
type deletedParentCache struct {
	mu    sync.Mutex
	byUID map[string]client.Object
}

// addParent keeps a subject that is gone.
func (s *deletedParentCache) addParent(subject client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID == nil {
		s.byUID = map[string]client.Object{}
	}
	s.byUID[string(subject.GetUID())] = subject
}

// removeParent drops the subject of an owed run.
func (s *deletedParentCache) removeParent(run *v1alpha1.HookRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, run.Spec.Subject.UID)
}

// getParentOrStub returns a subject as it was last, or else what the run knows of it: an operator that has
// restarted since does not know which namespaces it was for.
func (s *deletedParentCache) getParentOrStub(run *v1alpha1.HookRun) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.byUID[run.Spec.Subject.UID]; last != nil {
		copied, _ := last.DeepCopyObject().(client.Object) // a copy is of the type of what was copied
		return copied
	}
	stub := newParent(run)
	stub.SetNamespace(run.Namespace)
	stub.SetName(run.Spec.Subject.Name)
	stub.SetUID(types.UID(run.Spec.Subject.UID))
	return stub
}
