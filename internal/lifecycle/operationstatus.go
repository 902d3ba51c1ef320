// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// HasProcessedItems reports whether all objects of a run were archived or restored. After that,
// only operations may still be running.
func HasProcessedItems(s Object) bool { return conditions.IsTrue(s, v1alpha1.ConditionItemsProcessed) }

// MarkItemsProcessed records that all objects were processed, and how many operations the
// finished attempt started. The cache may show fewer operations for a while.
func (s *Scope[T]) MarkItemsProcessed(started int) {
	n := int32(started) //nolint:gosec // as many objects fit into no cluster
	s.Object.Run().Operations = &v1alpha1.OperationCounts{Attempted: n, Capturing: n}
	conditions.Set(s.Object, v1alpha1.ConditionItemsProcessed, metav1.ConditionTrue, v1alpha1.ReasonObjectsProcessed,
		"Every object was processed; "+text.Pluralize(int64(started), "operation")+" of plugins may still be running")
}

// ReconcileOperations records the progress of the operations of a run. It cancels operations
// that are no longer useful, because a later attempt started them again, a user canceled the
// run, or the run has failed (Scope.WorkFailed). While the step that starts operations is
// running, ReconcileOperations is throttled: nothing waits for them.
func (d *Driver[T]) ReconcileOperations(ctx context.Context, s *Scope[T], step string) error {
	outcome, known := d.steps.LookupOutcome(stepID(s.Object.GetUID(), step))
	if known && outcome == nil && d.requeueIfThrottled(s, false) {
		return nil
	}
	current, repeated, err := d.listOperations(ctx, s.Object)
	if err != nil {
		return err
	}
	d.updateOperations(s, current, repeated)
	return nil
}

// requeueIfThrottled reports whether the operations were checked recently, given what it costs
// to summarize thousands of them, and to write the status. If so, it requeues the run.
func (d *Driver[T]) requeueIfThrottled(s *Scope[T], awaited bool) bool {
	rest := d.throttle.timeUntilNextCheck(s.Object.GetUID(), awaited, d.Now())
	if rest <= 0 || s.IsCancelRequested() {
		return false
	}
	s.RequeueAfter(rest)
	return true
}

// updateOperations is ReconcileOperations for operations that were already read. It returns how
// many of the current ones have not ended.
func (d *Driver[T]) updateOperations(s *Scope[T], current, repeated []v1alpha1.AsyncOperation) (open int32) {
	size := len(current) + len(repeated)
	d.throttle.recordCheck(s.Object.GetUID(), size, d.Now())
	if d.OnOperationsChange != nil {
		d.OnOperationsChange(s.Object.GetUID(), size)
	}
	d.cancelOperations(s, withoutDuplicates(repeated, current), "the action was called again for the same object")
	switch {
	case s.IsDeadlineExceeded() && !s.isCancelRequestedByUser():
		d.cancelOperations(s, current, s.CancelReason())
	case s.IsCancelRequested() && s.Object.GetDeletionTimestamp() == nil:
		d.cancelOperations(s, current, "the "+d.Kind.Name+" was canceled")
	case s.IsCancelRequested():
		d.cancelOperations(s, current, "the "+d.Kind.Name+" was deleted")
	case s.WorkFailed:
		d.cancelOperations(s, current, "the "+d.Kind.Name+" has failed")
	}
	if s.Operations = current; len(current) == 0 && s.countLostOperations(current) == 0 {
		return 0
	}
	return s.updateOperationCounts(current)
}

// AwaitOperations is the ReconcileFunc that waits until the operations have ended, and sets
// Scope.Operations. Meanwhile it runs the Post actions that wait for captured data. It follows the part that calls item actions, whether that succeeded or not.
// Each operation ends by itself within its timeout.
func (d *Driver[T]) AwaitOperations(ctx context.Context, s *Scope[T]) (bool, error) {
	if IsFinished(s.Object) {
		return true, nil
	}
	if c := s.Object.Run().Operations; c != nil && c.Attempted > c.Completed+c.Failed+c.Cancelled && !s.WorkFailed && d.requeueIfThrottled(s, true) {
		d.runDataCapturedActions(s)
		return false, nil
	}
	current, repeated, err := d.listOperations(ctx, s.Object)
	if err != nil {
		return false, err
	}
	if behind, err := d.awaitOperationCache(ctx, s, len(current)+len(repeated)); behind || err != nil {
		return false, err
	}
	open := d.updateOperations(s, current, repeated)
	running := d.runDataCapturedActions(s)
	if open > 0 {
		d.Logs.Open(string(s.Object.GetUID()), runlog.Main) // for lines of the operations: another operator may have begun the run
		s.markWaitingForOperations(open, running)
	}
	return open == 0, nil
}

// countLostOperations returns how many recorded operations no longer exist: a user deleted them
// after removing their finalizers.
func (s *Scope[T]) countLostOperations(current []v1alpha1.AsyncOperation) int32 {
	counts := s.Object.Run().Operations
	if counts == nil || !HasProcessedItems(s.Object) {
		return 0
	}
	return max(counts.Attempted-int32(len(current)), 0) //nolint:gosec // as many objects fit into no cluster
}

// updateOperationCounts records the progress of the operations, and returns how many have not
// ended.
func (s *Scope[T]) updateOperationCounts(current []v1alpha1.AsyncOperation) (open int32) {
	lost := s.countLostOperations(current)
	counts, sentence := operation.Summarize(current)
	counts.Attempted += lost
	counts.Failed += lost
	if lost > 0 {
		sentence += fmt.Sprintf("; %s deleted without finalizer, outcome unknown", text.Pluralize(int64(lost), "AsyncOperation"))
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

// OperationsMessage returns the progress of the operations: "3 of 5 operations done, 61 %".
func (s *Scope[T]) OperationsMessage() string {
	if c := conditions.Get(s.Object, v1alpha1.ConditionOperationsSucceeded); c != nil {
		return c.Message
	}
	return ""
}

// OperationsOutcomeText returns the results of the operations for the message of the outcome. It
// begins with a comma, and is empty if there were no operations.
func (s *Scope[T]) OperationsOutcomeText() string {
	counts := s.Object.Run().Operations
	if counts == nil || counts.Attempted == 0 {
		return ""
	}
	sentence := fmt.Sprintf(", %d of %s completed", counts.Completed, text.Pluralize(int64(counts.Attempted), "operation"))
	if counts.Cancelled > 0 {
		sentence += fmt.Sprintf(" (%d canceled)", counts.Cancelled)
	}
	return sentence
}

// ToVeleroOperations returns the operations in the form in which they are stored.
func (s *Scope[T]) ToVeleroOperations() []velero.Operation {
	ended := make([]velero.Operation, 0, len(s.Operations))
	for i := range s.Operations {
		ended = append(ended, toVeleroOperation(&s.Operations[i]))
	}
	return ended
}

func toVeleroOperation(o *v1alpha1.AsyncOperation) velero.Operation {
	out := velero.Operation{
		Action: o.Spec.ActionName, Kind: string(o.Spec.Kind), Plugin: o.Spec.PluginRef.Name, ID: o.Spec.OperationID,
		Object: toResourceIdentifier(o.Spec.Item), Message: o.Status.Message,
		Phase: velero.OperationPhase(o.Status.Phase), Created: o.CreationTimestamp.Time,
	}
	for _, item := range o.Spec.PostOperationItems {
		out.PostItems = append(out.PostItems, toResourceIdentifier(item))
	}
	if p := o.Status.Progress; p != nil {
		out.Completed, out.Total, out.Units, out.Description = p.Completed, p.Total, p.Units, p.Description
		out.Warning = p.Warning
	}
	if at := o.Status.StartTimestamp; at != nil {
		out.Started = at.Time
	}
	if at := o.Status.UpdateTimestamp; at != nil {
		out.Updated = at.Time
	}
	return out
}

func toResourceIdentifier(item v1alpha1.OperationItem) velero.ResourceIdentifier {
	return velero.ResourceIdentifier{
		GroupResource: schema.GroupResource{Group: item.Group, Resource: item.Resource}, Namespace: item.Namespace, Name: item.Name,
	}
}

// markWaitingForOperations sets the status of a run that waits for operations, while it runs an
// action.
func (s *Scope[T]) markWaitingForOperations(open int32, running string) {
	sentence := s.OperationsMessage()
	if running != "" {
		sentence += "; " + running
	}
	if s.IsCancelRequested() || s.WorkFailed {
		s.setWaitingPhase(v1alpha1.ReasonCancelling, fmt.Sprintf("Canceling %s of plugins: %s", text.Pluralize(int64(open), "operation"), sentence))
		return
	}
	s.setWaitingPhase(v1alpha1.ReasonWaitingForOperations, "Waiting for operations of plugins: "+sentence)
}

// hasErrors reports whether the run has errors, or operations that did not complete.
func (s *Scope[T]) hasErrors() bool {
	status := s.Object.Run()
	return status.Errors > 0 || status.Operations != nil && status.Operations.Failed+status.Operations.Cancelled > 0
}

// setWaitingPhase records that the run waits for operations of plugins.
func (s *Scope[T]) setWaitingPhase(reason, message string) {
	s.Object.SetPhase(v1alpha1.RunPhaseWaitingForPluginOperations)
	if s.hasErrors() {
		s.Object.SetPhase(v1alpha1.RunPhaseWaitingForPluginOperationsPartiallyFailed)
	}
	s.markOutcomeUnknown(reason, message)
}

// SetFinalizingPhase records that the results of the operations are being stored.
func (s *Scope[T]) SetFinalizingPhase(message string) {
	s.Object.SetPhase(v1alpha1.RunPhaseFinalizing)
	if s.hasErrors() {
		s.Object.SetPhase(v1alpha1.RunPhaseFinalizingPartiallyFailed)
	}
	s.markOutcomeUnknown(v1alpha1.ReasonFinalizing, message)
}

// awaitOperationCache reports whether the cache shows fewer operations than exist. It asks the
// API server until the cache has caught up: after that, the cache contains all of them.
func (d *Driver[T]) awaitOperationCache(ctx context.Context, s *Scope[T], known int) (behind bool, err error) {
	if s.Object.Run().Operations == nil || d.throttle.isCacheSynced(s.Object.GetUID()) {
		return false, nil
	}
	live, err := d.countOperations(ctx, s.Object)
	if err != nil {
		return false, fmt.Errorf("counting the AsyncOperations: %w", err)
	}
	if live <= known {
		d.throttle.markCacheSynced(s.Object.GetUID())
		return false, nil
	}
	s.setWaitingPhase(v1alpha1.ReasonWaitingForOperations, "Waiting for operations of plugins")
	s.RequeueAfter(time.Second)
	return true, nil
}

// countOperations asks the API server how many operations a run has. It reads page by page,
// because ten thousand at once would need more memory than everything that is cached about them.
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

// operationEventHandler enqueues the run of an operation that changed.
func (d *Driver[T]) operationEventHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, object client.Object, urgent bool) {
		o, ok := object.(*v1alpha1.AsyncOperation)
		if !ok || o.Spec.ParentRef.Kind != d.Kind.Name {
			return
		}
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.ParentRef.Name}
		q.AddAfter(reconcile.Request{NamespacedName: name}, d.throttle.enqueueDelay(types.UID(o.Spec.ParentRef.UID), urgent))
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object, false) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object, true) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, _ := e.ObjectOld.(*v1alpha1.AsyncOperation) // a watch of operations delivers nothing else
			after, _ := e.ObjectNew.(*v1alpha1.AsyncOperation)
			wake(q, e.ObjectNew, before != nil && after != nil &&
				(before.Ended() != after.Ended() || hasCapturedData(before) != hasCapturedData(after)))
		},
	}
}

func hasCapturedData(o *v1alpha1.AsyncOperation) bool { return o.Status.DataCapturedTimestamp != nil }
