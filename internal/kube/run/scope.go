// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// Subject is a Backup or Restore.
type Subject interface {
	client.Object
	conditions.Object
	// Run is what every run has in its status.
	Run() *v1alpha1.RunStatus
	GetPhase() string
	SetPhase(phase string)
	// ActionsStatuses returns where the actions before and after are listed.
	ActionsStatuses() (pre, post **[]v1alpha1.ActionStatus)
	// Desired is what a person wants of the run, and what is handed to plugins.
	Desired() (v1alpha1.DesiredState, map[string]v1alpha1.ParameterSet)
	// OperationTimeout is how long an operation on an object may take; 0 if the spec
	// does not say.
	OperationTimeout() time.Duration
}

// Scope is what one pass knows and wants. Nothing in it outlives the pass.
type Scope[T Subject] struct {
	// Object is changed freely, and its status is written once.
	Object T
	// Pre and Post are the HookRuns of the plan in the order they run. Set once
	// the plan is recorded.
	Pre, Post []*v1alpha1.HookRun
	// Left says that something of the work is still to be tidied up beside the
	// Post actions.
	Left bool

	// GivenUp says that the work on objects failed as a whole, so that operations which
	// actions started in it are of no use.
	GivenUp bool
	// Operations are those that count. Set when all of them have ended.
	Operations []v1alpha1.AsyncOperation

	// before is the object as it was read.
	before  T
	kind    Kind
	after   []func(context.Context) error
	requeue time.Duration
}

func newScope[T Subject](kind Kind, object T) *Scope[T] {
	return &Scope[T]{Object: object, before: copyOf(object), kind: kind}
}

func copyOf[T Subject](object T) T {
	copied, _ := object.DeepCopyObject().(T) // a deep copy has the type of what is copied
	return copied
}

// Then adds what follows the status write. It is dropped if the write fails.
func (s *Scope[T]) Then(f func(context.Context) error) { s.after = append(s.after, f) }

// Again asks for another pass, at the earliest time anyone asked for.
func (s *Scope[T]) Again(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = max(d, time.Millisecond)
	}
}

// Stopping says whether a person wants the run to end.
func (s *Scope[T]) Stopping() bool {
	state, _ := s.Object.Desired()
	return state == v1alpha1.DesiredStateCancel || s.Object.GetDeletionTimestamp() != nil
}

// WhyStopping says how they said so.
func (s *Scope[T]) WhyStopping() string {
	if s.Object.GetDeletionTimestamp() == nil {
		return "spec.desiredState is Cancel"
	}
	return "the " + s.kind.Name + " was deleted"
}

// Planned says whether the plan of a run is recorded.
func Planned(s Subject) bool { return conditions.IsTrue(s, v1alpha1.ConditionPlanned) }

// Decided says whether the outcome is recorded; it never changes then.
func Decided(s Subject) bool { return s.Run().CompletionTimestamp != nil }

// Succeeded says whether the outcome is one in which all or most of the work was
// done.
func Succeeded(s Subject) bool {
	return s.GetPhase() == PhaseCompleted || s.GetPhase() == PhasePartiallyFailed
}

// Settled says whether there is nothing left to do for the run.
func Settled(s Subject) bool {
	reconciling := conditions.Get(s, v1alpha1.ConditionReconciling)
	return Decided(s) && reconciling != nil && reconciling.Status == metav1.ConditionFalse &&
		!conditions.IsTrue(s, v1alpha1.ConditionCleanupOwed)
}
