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

// Object is a Backup or Restore.
type Object interface {
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
	Timeouts
}

// Timeouts are what a spec says about how long something may take; 0 if it does not say.
type Timeouts interface {
	// OperationTimeout is how long an operation on an object may take.
	OperationTimeout() time.Duration
	// RunTimeout is how long the run may take, and WorkTimeout one attempt to do its work.
	RunTimeout() time.Duration
	WorkTimeout() time.Duration
}

// Scope is what one pass knows and wants. Nothing in it outlives the pass.
type Scope[T Object] struct {
	// Object is changed freely, and its status is written once.
	Object T
	// Pre and Post are the HookRuns of the plan in the order they run. Set once
	// the plan is recorded.
	Pre, Post []*v1alpha1.HookRun
	// CleanupPending says that something of the work is still to be tidied up beside the
	// Post actions.
	CleanupPending bool

	// WorkFailed says that the work on objects failed as a whole, so that operations which
	// actions started in it are of no use.
	WorkFailed bool
	// Operations are those that count. Set when all of them have ended.
	Operations []v1alpha1.AsyncOperation

	// unfinishedSteps says which steps after the outcome hold the run.
	unfinishedSteps []string
	// original is the object as it was read.
	original    T
	kind        KindTraits
	afterUpdate []func(context.Context) error
	requeue     time.Duration
	// expired is set when the deadline of the run has passed.
	expired *deadlineError
	// needsSlot says that the run wants a slot, or has one, and keeps its place.
	needsSlot bool
	// countedCrashes are the steps whose crashes were looked for.
	countedCrashes map[string]bool
	// awaitingPlugin are the names of HookRuns that are made again when a Plugin is loaded.
	awaitingPlugin map[string]bool
}

func newScope[T Object](kind KindTraits, object T) *Scope[T] {
	return &Scope[T]{Object: object, original: deepCopyOf(object), kind: kind}
}

func deepCopyOf[T Object](object T) T {
	copied, _ := object.DeepCopyObject().(T) // a deep copy has the type of what is copied
	return copied
}

// AfterStatusUpdate adds what follows the status write. It is dropped if the write fails.
func (s *Scope[T]) AfterStatusUpdate(f func(context.Context) error) {
	s.afterUpdate = append(s.afterUpdate, f)
}

// RequeueAfter asks for another pass, at the earliest time anyone asked for.
func (s *Scope[T]) RequeueAfter(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = max(d, time.Millisecond)
	}
}

// IsCancelRequested reports whether the run is to end: a person wants that, or its deadline has passed.
func (s *Scope[T]) IsCancelRequested() bool {
	return s.isCancelRequestedByUser() || s.IsDeadlineExceeded()
}

func (s *Scope[T]) isCancelRequestedByUser() bool {
	state, _ := s.Object.Desired()
	return state == v1alpha1.DesiredStateCancel || s.Object.GetDeletionTimestamp() != nil
}

// IsDeadlineExceeded reports whether the run has reached its deadline before its outcome.
func (s *Scope[T]) IsDeadlineExceeded() bool { return s.expired != nil }

// CancelReason says why.
func (s *Scope[T]) CancelReason() string {
	switch {
	case s.Object.GetDeletionTimestamp() != nil:
		return "the " + s.kind.Name + " was deleted"
	case s.isCancelRequestedByUser() || !s.IsDeadlineExceeded():
		return "spec.desiredState is Cancel"
	}
	return s.expired.Error()
}

// IsPlanned says whether the plan of a run is recorded.
func IsPlanned(s Object) bool { return conditions.IsTrue(s, v1alpha1.ConditionPlanned) }

// IsFinished says whether the outcome is recorded; it never changes then.
func IsFinished(s Object) bool { return s.Run().CompletionTimestamp != nil }

// IsCompletedOrPartiallyFailed says whether the outcome is one in which all or most of the work was
// done.
func IsCompletedOrPartiallyFailed(s Object) bool {
	return s.GetPhase() == PhaseCompleted || s.GetPhase() == PhasePartiallyFailed
}

// IsFinalized says whether there is nothing left to do for the run.
func IsFinalized(s Object) bool {
	reconciling := conditions.Get(s, v1alpha1.ConditionReconciling)
	return IsFinished(s) && reconciling != nil && reconciling.Status == metav1.ConditionFalse &&
		!conditions.IsTrue(s, v1alpha1.ConditionCleanupOwed)
}
