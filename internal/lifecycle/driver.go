// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/clock"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// ReconcileFunc reconciles one part of the life of a run. It observes whether that part is
// done, does what can be done now, and returns whether the next part may follow in the same
// reconcile.
type ReconcileFunc[T Object] func(ctx context.Context, s *Scope[T]) (done bool, err error)

// Driver is what the controllers of all kinds of runs share: slots, background steps, hooks,
// operations, deadlines, status and events. A Reconcile calls GetRun, Begin, the parts of its
// kind through ReconcileUntilWaiting, and WriteStatus. Every field without a default is
// required. A Driver may be used concurrently after NewControllerManagedBy.
type Driver[T Object] struct {
	Dependencies
	Kind KindTraits
	// Slots is how many runs may be active at a time; 4 by default.
	Slots int
	// New returns an empty object, NewList an empty list of them.
	New     func() T
	NewList func() client.ObjectList
	// Location returns the name of the storage location that a run uses.
	Location func(T) string
	// Schedule returns the name of the Schedule that a run belongs to, for metrics.
	Schedule func(T) string
	// StepNames are the names of all steps that the controller uses.
	StepNames []string
	// StepTimeouts are the timeouts of steps. Other steps end at the deadline of the run.
	StepTimeouts map[string]time.Duration
	// OnStatusUpdate, if set, is called after each status write with the object before and
	// after.
	OnStatusUpdate func(before, after T)
	// OnForget, if set, is called when this process drops its state of a run.
	OnForget func(uid types.UID)

	// ttls tracks when finalized runs are due for removal.
	ttls     clock.DueTracker[types.NamespacedName]
	progress progressTracker
	throttle operationThrottle
	// admissions has the runs that wait for what they need.
	admissions  admissionTracker
	steps       *runner.Runner[any]
	queue       *queue
	metrics     *metrics[T]
	events      chan event.GenericEvent
	cleanupGate cleanupGate
}

// maxConcurrentReconciles is how many objects are reconciled in parallel. A reconcile blocks on
// nothing but the API server.
const maxConcurrentReconciles = 4

// minErrorBackoff is the first wait after an error; many errors are transient.
const minErrorBackoff = 5 * time.Millisecond

// NewControllerManagedBy adds the background steps and metrics of the kind to the manager, and
// returns a builder of its controller with the watches that all kinds of runs have.
func (d *Driver[T]) NewControllerManagedBy(mgr ctrl.Manager) (_ *builder.Builder, err error) {
	name := strings.ToLower(d.Kind.Name)
	if d.New == nil || d.NewList == nil || d.Location == nil || d.Schedule == nil {
		return nil, fmt.Errorf("%s: a required field of the Driver is missing", name)
	}
	if err := d.validateRequiredFields(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.Slots <= 0 {
		d.Slots = 4
	}
	d.Operations, d.Limits = d.Operations.WithDefaults(), d.Limits.WithDefaults()
	if d.ServerTime == nil {
		d.ServerTime = (&clock.ServerClock{Client: d.Client, Now: d.Now}).Time
	}
	if d.metrics, err = newMetrics(d.Metrics, d.Kind, d.Client, d.NewList, d.Schedule); err != nil {
		return nil, fmt.Errorf("registering the metrics of a %s: %w", name, err)
	}
	d.events = make(chan event.GenericEvent, 1024)
	d.queue = newQueue(d.Slots, d.Enqueue)
	d.steps = runner.New[any](d.Enqueue)
	d.steps.GracePeriod = d.Limits.StuckStepTimeout
	if err := RegisterMetrics(d.Metrics, newStuckStepsGauge(d.Kind, d.steps.NumStuckTasks)); err != nil {
		return nil, fmt.Errorf("registering the metrics of a %s: %w", name, err)
	}
	if err := mgr.Add(d.steps); err != nil {
		return nil, fmt.Errorf("adding the background steps of a %s: %w", name, err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(d.New()).
		Owns(&v1alpha1.HookRun{}).
		Watches(&v1alpha1.AsyncOperation{}, d.operationEventHandler()).
		Watches(&v1alpha1.BackupStorageLocation{}, handler.EnqueueRequestsFromMapFunc(d.mapToPendingRuns), builder.WithPredicates(locationChangedPredicate())).
		Watches(&v1alpha1.Plugin{}, handler.EnqueueRequestsFromMapFunc(d.mapToPendingRuns)).
		WatchesRawSource(source.Channel(d.events, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles, RateLimiter: backoff.NewRateLimiter[reconcile.Request](minErrorBackoff)}), nil
}

// mapToPendingRuns returns the runs whose plan is not recorded. Only those are affected by a
// change of a location or a Plugin.
func (d *Driver[T]) mapToPendingRuns(ctx context.Context, _ client.Object) []reconcile.Request {
	list := d.NewList()
	if err := d.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache cannot fail once it has started
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function returns no error
		if object, ok := item.(T); ok && !IsPlanned(object) && !IsFinished(object) {
			requests = append(requests, reconcile.Request{NamespacedName: namespacedNameOf(object)})
		}
		return nil
	})
	return requests
}

// Enqueue requests that an object is reconciled.
func (d *Driver[T]) Enqueue(owner types.NamespacedName) {
	object := d.New()
	object.SetNamespace(owner.Namespace)
	object.SetName(owner.Name)
	d.events <- event.GenericEvent{Object: object}
}

// AcquireSlot acquires a slot for a run, or adds the run to the queue. It reports whether the
// run has a slot.
func (d *Driver[T]) AcquireSlot(s *Scope[T]) bool {
	s.needsSlot = true
	return d.queue.acquireSlot(s.Object, false)
}

// ReleaseSlot releases the slot of a run that waits for something that may take long. The run
// acquires a slot again before it continues.
func (d *Driver[T]) ReleaseSlot(s *Scope[T]) { d.queue.removeRun(s.Object.GetUID()) }

// GetRun reads a run from the cache. If it does not exist, GetRun stops what still runs for it
// and returns the error of the client.
func (d *Driver[T]) GetRun(ctx context.Context, name types.NamespacedName) (T, error) {
	object := d.New()
	if err := d.Client.Get(ctx, name, object); err != nil {
		if apierrors.IsNotFound(err) {
			d.ttls.Forget(name)
			d.stopOrphanedSteps(name)
		}
		return object, err
	}
	if IsFinished(object) {
		d.queue.removeRun(object.GetUID())
	}
	return object, nil
}

// Begin begins to reconcile a run that is not finalized: it adds the finalizer and checks the
// deadline. It returns nil if there is nothing to do.
func (d *Driver[T]) Begin(ctx context.Context, object T) (*Scope[T], error) {
	if !controllerutil.ContainsFinalizer(object, v1alpha1.FinalizerRun) {
		if object.GetDeletionTimestamp() != nil {
			d.queue.removeRun(object.GetUID())
			return nil, nil
		}
		if err := d.addFinalizer(ctx, object); err != nil {
			return nil, ignoreConflictAndNotFound(err)
		}
	}
	d.recordGateStart()
	s := newScope(d.Kind, object)
	d.checkDeadline(ctx, s)
	return s, nil
}

// ReconcileUntilWaiting calls the parts of a run in their order, until one has to wait or
// returns an error.
func (s *Scope[T]) ReconcileUntilWaiting(ctx context.Context, parts ...ReconcileFunc[T]) error {
	for _, reconcilePart := range parts {
		done, err := reconcilePart(ctx, s)
		if err != nil {
			return err
		}
		if !done {
			break
		}
	}
	if IsPlanned(s.Object) {
		s.recordActionStatuses()
	}
	return nil
}

// WriteStatus ends a reconcile. It writes the status once, if it changed, then does what was
// added with AfterStatusUpdate. Nothing is written after an error of the reconcile, which it
// returns.
func (d *Driver[T]) WriteStatus(ctx context.Context, s *Scope[T], err error) (ctrl.Result, error) {
	d.yieldUnneededSlot(s)
	if errors.Is(err, errStaleCache) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := d.patchStatus(ctx, s); err != nil {
		return ctrl.Result{}, ignoreConflictAndNotFound(err) // the watch enqueues what is newer
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// DeleteAfter deletes a finalized run when ttl has passed since its end.
func (d *Driver[T]) DeleteAfter(ctx context.Context, object T, ttl time.Duration) (ctrl.Result, error) {
	if err := d.RemoveFinalizer(ctx, object); err != nil || object.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, err
	}
	end := object.Run().CompletionTimestamp.Add(ttl)
	if left := d.ttls.TimeUntilDue(namespacedNameOf(object), end, ttl, d.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: min(left, time.Hour)}, nil // the clock may be changed meanwhile
	}
	uid := object.GetUID()
	if err := d.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); ignoreConflictAndNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting the finished %s %s: %w", d.Kind.Name, object.GetName(), err)
	}
	return ctrl.Result{}, nil
}

// yieldUnneededSlot releases the slot or queue position of a run that waits for something other
// than its turn, so that it does not hold up other runs.
func (d *Driver[T]) yieldUnneededSlot(s *Scope[T]) {
	if !s.needsSlot {
		d.queue.yieldSlot(s.Object.GetUID(), IsPlanned(s.Object)) // a run that has started keeps its slot
	}
}

// stopOrphanedSteps stops the steps of a run that was deleted after its finalizer was removed by
// hand. Each step that ends enqueues the name again.
func (d *Driver[T]) stopOrphanedSteps(owner types.NamespacedName) {
	for _, uid := range d.queue.uidsForName(owner) {
		if d.cancelRunSteps(uid, d.StepNames...) {
			continue
		}
		d.forgetRun(uid)
		d.queue.removeRun(uid)
	}
}

// forgetRun drops the state that this process has of a run.
func (d *Driver[T]) forgetRun(uid types.UID) {
	for _, step := range d.StepNames {
		d.steps.Forget(stepID(uid, step))
		d.Journal.ForgetWork(journalID(uid, step))
	}
	d.progress.forgetRun(uid)
	d.throttle.forgetRun(uid)
	d.admissions.forgetRun(uid)
	d.Logs.Remove(string(uid))
	if d.OnOperationsChange != nil {
		d.OnOperationsChange(uid, 0)
	}
	if d.OnForget != nil {
		d.OnForget(uid)
	}
}

// addFinalizer keeps the object until it is finalized.
func (d *Driver[T]) addFinalizer(ctx context.Context, object T) error {
	patch := client.MergeFromWithOptions(deepCopyOf(object), client.MergeFromWithOptimisticLock{})
	controllerutil.AddFinalizer(object, v1alpha1.FinalizerRun)
	if err := d.Client.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("adding the finalizer of %s %s: %w", d.Kind.Name, object.GetName(), err)
	}
	return nil
}

// patchStatus writes the status, and then calls the functions that depend on the write.
func (d *Driver[T]) patchStatus(ctx context.Context, s *Scope[T]) error {
	recordStage(s.Object, d.Now())
	written := deepCopyOf(s.Object)
	if !equality.Semantic.DeepEqual(s.original, s.Object) {
		patch := client.MergeFromWithOptions(s.original, client.MergeFromWithOptimisticLock{})
		if err := d.Client.Status().Patch(ctx, s.Object, patch); err != nil {
			return fmt.Errorf("writing the status of %s %s: %w", d.Kind.Name, s.Object.GetName(), err)
		}
		d.emitEvents(ctx, s.original, written)
		d.metrics.recordStatusUpdate(s.original, written)
		if d.OnStatusUpdate != nil {
			d.OnStatusUpdate(s.original, written)
		}
		if IsFinished(s.Object) {
			d.queue.removeRun(s.Object.GetUID()) // the next run need not wait for the watch
		}
	}
	d.exportSpans(ctx, written)
	for _, f := range s.afterUpdate {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RemoveFinalizer releases the HookRuns, the log and the finalizer of a finalized run. It is
// idempotent.
func (d *Driver[T]) RemoveFinalizer(ctx context.Context, object T) error {
	d.queue.removeRun(object.GetUID())
	if !controllerutil.ContainsFinalizer(object, v1alpha1.FinalizerRun) {
		return nil
	}
	if all, err := d.finalizeHookRuns(ctx, object); !all || err != nil {
		return ignoreConflictAndNotFound(err) // the watch enqueues the run when the remaining HookRuns are released
	}
	d.forgetRun(object.GetUID())
	released := deepCopyOf(object)
	patch := client.MergeFromWithOptions(deepCopyOf(object), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerRun)
	if err := d.Client.Patch(ctx, released, patch); ignoreConflictAndNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of %s %s: %w", d.Kind.Name, object.GetName(), err)
	}
	return nil
}

// ignoreConflictAndNotFound drops the error of a write that lost against a newer one, or whose
// object no longer exists: the watch delivers the newer state.
func ignoreConflictAndNotFound(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
