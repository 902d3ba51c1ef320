// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// Object is a Backup, Restore or DeletionRun.
type Object interface {
	client.Object
	conditions.Object
	// Run returns the part of the status that all kinds have in common.
	Run() *v1alpha1.RunStatus
	GetPhase() v1alpha1.RunPhase
	SetPhase(phase v1alpha1.RunPhase)
	// ActionsStatuses returns pointers to the lists of the actions before and after the work.
	ActionsStatuses() (pre, post **[]v1alpha1.ActionStatus)
	// Desired returns the desired state of the run, and the parameters for plugins.
	Desired() (v1alpha1.DesiredState, map[string]v1alpha1.ParameterSet)
	Timeouts
}

// Timeouts are the timeouts in a spec; 0 if one is not set.
type Timeouts interface {
	// OperationTimeout is the timeout of an operation on an object.
	OperationTimeout() time.Duration
	// RunTimeout is the timeout of the run, and WorkTimeout that of one attempt to do its work.
	RunTimeout() time.Duration
	WorkTimeout() time.Duration
}

// Scope is the state of one reconcile pass. It does not outlive the pass.
type Scope[T Object] struct {
	// Object may be changed freely; its status is written once.
	Object T
	// Pre and Post are the HookRuns of the plan in the order in which they run. They are set
	// once the plan is recorded.
	Pre, Post []*v1alpha1.HookRun
	// CleanupPending means that some work still has to be cleaned up, in parallel with the Post
	// actions.
	CleanupPending bool

	// WorkFailed means that the work on objects failed as a whole, and that operations which
	// actions started in it are not useful anymore.
	WorkFailed bool
	// Operations are the operations that count. ReconcileOperations and AwaitOperations set them;
	// all of them have ended once AwaitOperations is done.
	Operations []v1alpha1.AsyncOperation

	// unfinishedSteps describe the steps after the outcome that hold the run.
	unfinishedSteps []string
	// original is the object as it was read.
	original    T
	kind        KindTraits
	afterUpdate []func(context.Context) error
	requeue     time.Duration
	// expired is set when the deadline of the run has passed.
	expired *deadlineError
	// needsSlot means that the run needs or has a slot, and keeps its place in the queue.
	needsSlot bool
	// countedCrashes are the steps whose crashes were counted in this pass.
	countedCrashes map[string]bool
	// awaitingPlugin are the names of HookRuns that are recreated when a Plugin is loaded.
	awaitingPlugin map[string]bool
}

func newScope[T Object](kind KindTraits, object T) *Scope[T] {
	return &Scope[T]{Object: object, original: deepCopyOf(object), kind: kind}
}

func deepCopyOf[T client.Object](object T) T {
	copied, _ := object.DeepCopyObject().(T) // a deep copy has the type of what is copied
	return copied
}

// AfterStatusUpdate registers a function that is called after the status write. It is dropped if
// the write fails.
func (s *Scope[T]) AfterStatusUpdate(f func(context.Context) error) {
	s.afterUpdate = append(s.afterUpdate, f)
}

// RequeueAfter requests another pass. The earliest requested time applies.
func (s *Scope[T]) RequeueAfter(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = max(d, time.Millisecond)
	}
}

// IsCancelRequested reports whether the run has to end, because a user requests it or because
// the deadline has passed.
func (s *Scope[T]) IsCancelRequested() bool {
	return s.isCancelRequestedByUser() || s.IsDeadlineExceeded()
}

func (s *Scope[T]) isCancelRequestedByUser() bool {
	state, _ := s.Object.Desired()
	return state == v1alpha1.DesiredStateCancel || s.Object.GetDeletionTimestamp() != nil
}

// IsDeadlineExceeded reports whether the run has reached its deadline before its outcome.
func (s *Scope[T]) IsDeadlineExceeded() bool { return s.expired != nil }

// CancelReason returns why the run has to end.
func (s *Scope[T]) CancelReason() string {
	switch {
	case s.Object.GetDeletionTimestamp() != nil:
		return "the " + s.kind.Name + " was deleted"
	case s.isCancelRequestedByUser() || !s.IsDeadlineExceeded():
		return "spec.desiredState is Cancel"
	}
	return s.expired.Error()
}

// IsPlanned reports whether the plan of a run is recorded.
func IsPlanned(s Object) bool { return conditions.IsTrue(s, v1alpha1.ConditionPlanned) }

// IsFinished reports whether the outcome is recorded; it never changes after that.
func IsFinished(s Object) bool { return s.Run().CompletionTimestamp != nil }

// IsCompletedOrPartiallyFailed reports whether all or most of the work was done.
func IsCompletedOrPartiallyFailed(s Object) bool {
	return s.GetPhase() == v1alpha1.RunPhaseCompleted || s.GetPhase() == v1alpha1.RunPhasePartiallyFailed
}

// IsFinalized reports whether the run is finished and nothing is owed.
func IsFinalized(s Object) bool {
	reconciling := conditions.Get(s, v1alpha1.ConditionReconciling)
	return IsFinished(s) && reconciling != nil && reconciling.Status == metav1.ConditionFalse &&
		!conditions.IsTrue(s, v1alpha1.ConditionCleanupOwed)
}
