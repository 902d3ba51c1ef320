// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// scope is what one pass knows and wants. Nothing in it outlives the pass.
type scope struct {
	// backup is the object; its status is changed freely and written once.
	backup *v1alpha1.Backup
	// before is the object as it was read. Set by newScope.
	before *v1alpha1.Backup
	// pre and post are the HookRuns of the plan in the order they run. Set by
	// the plan phase.
	pre, post []*v1alpha1.HookRun
	// left says that files of a run without a manifest are still to be stored
	// and removed. Set by the abandon phase.
	left bool
	// after is done once the status is written: starting what the status
	// records. It is dropped if the write fails.
	after []func(context.Context) error
	// requeue asks for another pass at a time; zero for none.
	requeue time.Duration
}

func newScope(b *v1alpha1.Backup) *scope {
	return &scope{backup: b, before: b.DeepCopy()}
}

// then adds what follows the status write.
func (s *scope) then(f func(context.Context) error) { s.after = append(s.after, f) }

// again asks for another pass, at the earliest time anyone asked for.
func (s *scope) again(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = max(d, time.Millisecond)
	}
}

// stopping says whether a person wants the run to end.
func (s *scope) stopping() bool {
	return s.backup.Spec.DesiredState == v1alpha1.DesiredStateCancel || !s.backup.DeletionTimestamp.IsZero()
}

// whyStopping says how they said so.
func (s *scope) whyStopping() string {
	if s.backup.DeletionTimestamp.IsZero() {
		return "spec.desiredState is Cancel"
	}
	return "the Backup was deleted"
}

// planned says whether the plan is recorded.
func planned(b *v1alpha1.Backup) bool { return conditions.IsTrue(b, v1alpha1.ConditionPlanned) }

// decided says whether the outcome is recorded; it never changes then.
func decided(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil }

// stored says whether the outcome is a usable backup.
func stored(b *v1alpha1.Backup) bool {
	return b.Status.Phase == v1alpha1.BackupPhaseCompleted || b.Status.Phase == v1alpha1.BackupPhasePartiallyFailed
}

// settled says whether there is nothing left to do for the run.
func settled(b *v1alpha1.Backup) bool {
	reconciling := conditions.Get(b, v1alpha1.ConditionReconciling)
	return decided(b) && reconciling != nil && reconciling.Status == "False" &&
		!conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed)
}

func ownerOf(b *v1alpha1.Backup) types.NamespacedName { return client.ObjectKeyFromObject(b) }
