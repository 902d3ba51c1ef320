// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/operation"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// Processed says whether all objects of a run were archived or restored, so that only
// operations go on.
func Processed(s Subject) bool { return conditions.IsTrue(s, v1alpha1.ConditionItemsProcessed) }

// SetProcessed records that, and how many operations were started in the attempt that
// has ended. What the cache shows of them may be less for a while.
func (s *Scope[T]) SetProcessed(started int) {
	s.Object.Run().Operations = &v1alpha1.OperationCounts{Attempted: int32(started)} //nolint:gosec // as many objects fit into no cluster
	conditions.Set(s.Object, v1alpha1.ConditionItemsProcessed, metav1.ConditionTrue, v1alpha1.ReasonObjectsProcessed,
		"Every object was looked at; "+Count(int64(started), "operation")+" of plugins may go on")
}

// FollowOperations writes down how far the operations of a run are, and has those
// cancelled that are of no use: because a later attempt started them again, a person
// wants the run to end, or the run has failed (Scope.GivenUp). While the step works that
// starts them, it does so now and then if there are thousands.
func (d *Driver[T]) FollowOperations(ctx context.Context, s *Scope[T], step string) error {
	outcome, known := d.steps.State(stepID(s.Object.GetUID(), step))
	if known && outcome == nil && d.resting(s) {
		return nil
	}
	current, repeated, err := d.operations(ctx, s.Object)
	if err != nil {
		return err
	}
	d.follow(s, current, repeated)
	return nil
}

// resting says whether the operations were looked at a moment ago, for what it takes to
// add up thousands of them, and plans the next pass.
func (d *Driver[T]) resting(s *Scope[T]) bool {
	rest := d.pace.rest(s.Object.GetUID(), d.Now())
	if rest <= 0 || s.Stopping() {
		return false
	}
	s.Again(rest)
	return true
}

// follow is FollowOperations when the operations were read. It returns how many of those
// that count go on.
func (d *Driver[T]) follow(s *Scope[T], current, repeated []v1alpha1.AsyncOperation) (open int32) {
	d.pace.set(s.Object.GetUID(), len(current)+len(repeated), d.Now())
	d.cancelOperations(s, unshared(repeated, current), "its object was shown to the action again")
	switch {
	case s.Stopping() && s.Object.GetDeletionTimestamp() == nil:
		d.cancelOperations(s, current, "the "+d.Kind.Name+" was cancelled")
	case s.Stopping():
		d.cancelOperations(s, current, "the "+d.Kind.Name+" was deleted")
	case s.GivenUp:
		d.cancelOperations(s, current, "the "+d.Kind.Name+" has failed")
	}
	if s.Operations = current; len(current) == 0 && s.lost(current) == 0 {
		return 0
	}
	return s.count(current)
}

// AwaitOperations is the phase that waits until what actions started has ended, and
// leaves the operations in the Scope. It follows the one that shows objects to actions,
// well or not. Each operation ends in time by itself.
func (d *Driver[T]) AwaitOperations(ctx context.Context, s *Scope[T]) (bool, error) {
	if Decided(s.Object) {
		return true, nil
	}
	if c := s.Object.Run().Operations; c != nil && c.Attempted > c.Completed+c.Failed+c.Cancelled && !s.GivenUp && d.resting(s) {
		return false, nil
	}
	current, repeated, err := d.operations(ctx, s.Object)
	if err != nil {
		return false, err
	}
	if behind, err := d.awaitCache(ctx, s, len(current)+len(repeated)); behind || err != nil {
		return false, err
	}
	open := d.follow(s, current, repeated)
	if open > 0 {
		s.waitForOperations(open)
	}
	return open == 0, nil
}

// lost is how many operations were recorded that nobody knows any more: somebody removed
// them by force, finalizer and all.
func (s *Scope[T]) lost(current []v1alpha1.AsyncOperation) int32 {
	counts := s.Object.Run().Operations
	if counts == nil || !Processed(s.Object) {
		return 0
	}
	return max(counts.Attempted-int32(len(current)), 0) //nolint:gosec // as many objects fit into no cluster
}

// count writes down how far the operations are, and returns how many go on.
func (s *Scope[T]) count(current []v1alpha1.AsyncOperation) (open int32) {
	lost := s.lost(current)
	counts, sentence := operation.Sum(current)
	counts.Attempted += lost
	counts.Failed += lost
	if lost > 0 {
		sentence += fmt.Sprintf("; %s removed by force, and nobody knows how it ended", Count(int64(lost), "AsyncOperation"))
	}
	s.Object.Run().Operations = &counts
	status, reason := metav1.ConditionUnknown, v1alpha1.ReasonRunning
	if open = counts.Attempted - counts.Completed - counts.Failed - counts.Cancelled; open == 0 {
		status, reason = metav1.ConditionTrue, v1alpha1.ReasonOperationsSucceeded
		if counts.Completed < counts.Attempted {
			status, reason = metav1.ConditionFalse, v1alpha1.ReasonOperationsFailed
		}
	}
	conditions.Set(s.Object, v1alpha1.ConditionOperationsSucceeded, status, reason, sentence)
	return open
}

// OperationsSentence says how far the operations are: "3 of 5 operations done, 61 %".
func (s *Scope[T]) OperationsSentence() string {
	if c := conditions.Get(s.Object, v1alpha1.ConditionOperationsSucceeded); c != nil {
		return c.Message
	}
	return ""
}

// DescribeOperations says for the outcome what became of the operations, if there were
// any, and begins with a comma.
func (s *Scope[T]) DescribeOperations() string {
	counts := s.Object.Run().Operations
	if counts == nil || counts.Attempted == 0 {
		return ""
	}
	text := fmt.Sprintf(", %d of %s completed", counts.Completed, Count(int64(counts.Attempted), "operation"))
	if counts.Cancelled > 0 {
		text += fmt.Sprintf(" (%d cancelled)", counts.Cancelled)
	}
	return text
}

// EndedOperations returns what became of the operations, as it is stored.
func (s *Scope[T]) EndedOperations() []velero.Operation {
	ended := make([]velero.Operation, 0, len(s.Operations))
	for i := range s.Operations {
		ended = append(ended, endedOperation(&s.Operations[i]))
	}
	return ended
}

func endedOperation(o *v1alpha1.AsyncOperation) velero.Operation {
	out := velero.Operation{
		Action: o.Spec.PluginName, Kind: string(o.Spec.Kind), Plugin: o.Spec.PluginRef.Name, ID: o.Spec.OperationID,
		Object: identifierOf(o.Spec.Item), Message: o.Status.Message,
		Phase: velero.OperationPhase(o.Status.Phase), Created: o.CreationTimestamp.Time,
	}
	for _, item := range o.Spec.PostOperationItems {
		out.PostItems = append(out.PostItems, identifierOf(item))
	}
	if p := o.Status.Progress; p != nil {
		out.Completed, out.Total, out.Units, out.Description = p.Completed, p.Total, p.Units, p.Description
	}
	if at := o.Status.StartTimestamp; at != nil {
		out.Started = at.Time
	}
	if at := o.Status.UpdateTimestamp; at != nil {
		out.Updated = at.Time
	}
	return out
}

func identifierOf(item v1alpha1.OperationItem) velero.ResourceIdentifier {
	return velero.ResourceIdentifier{
		GroupResource: schema.GroupResource{Group: item.Group, Resource: item.Resource}, Namespace: item.Namespace, Name: item.Name,
	}
}

// waitForOperations says what the run waits for.
func (s *Scope[T]) waitForOperations(open int32) {
	sentence := s.OperationsSentence()
	if s.Stopping() || s.GivenUp {
		s.goingOn(PhaseWaiting, v1alpha1.ReasonCancelling, fmt.Sprintf("Cancelling %s of plugins: %s", Count(int64(open), "operation"), sentence))
		return
	}
	s.goingOn(PhaseWaiting, v1alpha1.ReasonWaitingForOperations, "Waiting for operations of plugins: "+sentence)
}

// goingOn is Running in a later phase, whose name tells whether something went wrong
// already.
func (s *Scope[T]) goingOn(phase, reason, message string) {
	if status := s.Object.Run(); status.Errors > 0 || status.Operations != nil && status.Operations.Failed+status.Operations.Cancelled > 0 {
		phase += PhasePartiallyFailed
	}
	s.Object.SetPhase(phase)
	s.undecided(reason, message)
}

// Finalizing says that what became of the operations is being stored.
func (s *Scope[T]) Finalizing(message string) {
	s.goingOn(PhaseFinalizing, v1alpha1.ReasonFinalizing, message)
}

// awaitCache says whether the cache shows fewer operations than there are. It asks the API
// server once: a cache does not forget.
func (d *Driver[T]) awaitCache(ctx context.Context, s *Scope[T], known int) (behind bool, err error) {
	if s.Object.Run().Operations == nil || d.pace.caughtUp(s.Object.GetUID()) {
		return false, nil
	}
	live, err := d.countOperations(ctx, s.Object)
	if err != nil {
		return false, fmt.Errorf("counting the AsyncOperations: %w", err)
	}
	if live <= known {
		d.pace.catchUp(s.Object.GetUID())
		return false, nil
	}
	s.goingOn(PhaseWaiting, v1alpha1.ReasonWaitingForOperations, "Waiting for operations of plugins")
	s.Again(time.Second)
	return true, nil
}

// countOperations asks the API server how many operations a run has: page by page, because
// ten thousand at once would need more memory than all that is known of them.
func (d *Driver[T]) countOperations(ctx context.Context, o T) (n int, err error) {
	options := client.ListOptions{
		Namespace: o.GetNamespace(), Limit: 500,
		LabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelParentUID: string(o.GetUID())}),
	}
	for {
		var page metav1.PartialObjectMetadataList
		page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AsyncOperationList"))
		if err := d.Reader.List(ctx, &page, &options); err != nil {
			return 0, err
		}
		n += len(page.Items)
		if options.Continue = page.Continue; page.Continue == "" {
			return n, nil
		}
	}
}

// ofOperations wakes the run of an operation that changed.
func (d *Driver[T]) ofOperations() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, object client.Object, ended bool) {
		o, ok := object.(*v1alpha1.AsyncOperation)
		if !ok || o.Spec.Subject.Kind != d.Kind.Name {
			return
		}
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.Subject.Name}
		q.AddAfter(reconcile.Request{NamespacedName: name}, d.pace.pause(types.UID(o.Spec.Subject.UID), ended))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object, false) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object, true) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, _ := e.ObjectOld.(*v1alpha1.AsyncOperation) // a watch of operations brings nothing else
			after, _ := e.ObjectNew.(*v1alpha1.AsyncOperation)
			wake(q, e.ObjectNew, before != nil && after != nil && before.Ended() != after.Ended())
		},
	}
}
