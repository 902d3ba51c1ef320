// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// Phase is one part of the life of a run. It finds out from the world whether it
// is done, does what can be done now, and returns whether the next phase may
// follow in the same pass.
type Phase[T Subject] func(ctx context.Context, s *Scope[T]) (done bool, err error)

// Driver moves the objects of one kind through their phases. Every field without
// a default is required.
type Driver[T Subject] struct {
	Environment
	Kind Kind
	// Slots is how many runs may go on at a time; 4 by default.
	Slots int
	// New returns an empty object, NewList an empty list of them.
	New     func() T
	NewList func() client.ObjectList
	// Location returns the name of the storage location in use.
	Location func(T) string
	// Schedule returns the name of the Schedule that a run belongs to, for metrics.
	Schedule func(T) string
	// Ignore, if set, says which objects are no runs at all.
	Ignore func(T) bool
	// Phases in the order they are gone through.
	Phases []Phase[T]
	// Steps are the names of all steps that the phases use.
	Steps []string
	// Written, if set, is told what a status write changed.
	Written func(before, after T)
	// Forget, if set, is told when a run is over for this process.
	Forget func(uid types.UID)
	// Watches are objects of other kinds that matter to runs.
	Watches []Watch
	// TTL, if set, says how long a run is kept that has ended and owes nothing.
	TTL func(T) time.Duration

	progress progress
	pace     pace
	steps    *runner.Runner[any]
	queue    *queue
	metrics  *metrics[T]
	woken    chan event.GenericEvent
}

// Watch has runs looked at when objects of a kind change.
type Watch struct {
	Object client.Object
	// Runs returns the runs that an object matters to.
	Runs handler.MapFunc
}

// workers is how many objects are looked at in parallel; a pass never blocks on
// more than the API server.
const workers = 4

// SetupWithManager registers the controller of the kind and its background steps.
func (d *Driver[T]) SetupWithManager(mgr ctrl.Manager) (err error) {
	name := strings.ToLower(d.Kind.Name)
	if d.New == nil || d.NewList == nil || d.Location == nil || d.Schedule == nil || len(d.Phases) == 0 {
		return fmt.Errorf("%s: a required field of the Driver is missing", name)
	}
	if err := d.validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if d.Slots <= 0 {
		d.Slots = 4
	}
	d.Operations = d.Operations.WithDefaults()
	if d.metrics, err = newMetrics(d.Metrics, d.Kind, d.Client, d.NewList, d.Schedule); err != nil {
		return fmt.Errorf("registering the metrics of a %s: %w", name, err)
	}
	d.woken = make(chan event.GenericEvent, 1024)
	d.queue = newQueue(d.Slots, d.Wake)
	d.steps = runner.New[any](d.Wake)
	if err := mgr.Add(d.steps); err != nil {
		return fmt.Errorf("adding the background steps of a %s: %w", name, err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(d.New()).
		Owns(&v1alpha1.HookRun{}).
		Watches(&v1alpha1.AsyncOperation{}, d.ofOperations()).
		Watches(&v1alpha1.BackupStorageLocation{}, handler.EnqueueRequestsFromMapFunc(d.unplanned)).
		Watches(&v1alpha1.Plugin{}, handler.EnqueueRequestsFromMapFunc(d.unplanned)).
		WatchesRawSource(source.Channel(d.woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	for _, watch := range d.Watches {
		b.Watches(watch.Object, handler.EnqueueRequestsFromMapFunc(watch.Runs))
	}
	return b.Complete(d)
}

// unplanned returns the objects whose plan is not recorded: those that a location
// or a Plugin can change.
func (d *Driver[T]) unplanned(ctx context.Context, _ client.Object) []reconcile.Request {
	list := d.NewList()
	if err := d.Client.List(ctx, list); err != nil {
		return nil // the cache can not fail once it has started
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function returns no error
		if object, ok := item.(T); ok && !Planned(object) && !Decided(object) {
			requests = append(requests, reconcile.Request{NamespacedName: nameOf(object)})
		}
		return nil
	})
	return requests
}

// Wake has an object looked at again.
func (d *Driver[T]) Wake(owner types.NamespacedName) {
	object := d.New()
	object.SetNamespace(owner.Namespace)
	object.SetName(owner.Name)
	d.woken <- event.GenericEvent{Object: object}
}

// Acquire takes a slot for a run, or a place in the queue.
func (d *Driver[T]) Acquire(s *Scope[T]) bool { return d.queue.acquire(s.Object, false) }

// Release gives the slot of a run back that waits for something that may take long. The run
// acquires one again when it goes on.
func (d *Driver[T]) Release(s *Scope[T]) { d.queue.release(s.Object.GetUID()) }

// Reconcile moves one object as far as it can go now.
func (d *Driver[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := d.New()
	if err := d.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			d.drop(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if Decided(object) {
		d.queue.release(object.GetUID())
	}
	switch {
	case d.Ignore != nil && d.Ignore(object):
		return ctrl.Result{}, nil
	case Settled(object):
		return d.settled(ctx, object)
	case !controllerutil.ContainsFinalizer(object, v1alpha1.FinalizerRun):
		if object.GetDeletionTimestamp() != nil {
			d.queue.release(object.GetUID())
			return ctrl.Result{}, nil
		}
		if err := d.hold(ctx, object); err != nil {
			return ctrl.Result{}, quiet(err)
		}
	}
	s := newScope(d.Kind, object)
	if err := d.advance(ctx, s); err != nil {
		if errors.Is(err, errStale) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if err := d.write(ctx, s); err != nil {
		return ctrl.Result{}, quiet(err)
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// settled lets go of a run, and removes it when its time is over.
func (d *Driver[T]) settled(ctx context.Context, object T) (ctrl.Result, error) {
	if err := quiet(d.LetGo(ctx, object)); err != nil || d.TTL == nil || object.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, err
	}
	ttl := d.TTL(object)
	if left := object.Run().CompletionTimestamp.Add(ttl).Sub(d.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: min(left, time.Hour)}, nil // a clock may be set
	}
	uid := object.GetUID()
	if err := d.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); quiet(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing %s %s, which has ended: %w", d.Kind.Name, object.GetName(), err)
	}
	return ctrl.Result{}, nil
}

// drop stops what runs for an object that was removed by force, finalizer and
// all. Each step that ends comes here again.
func (d *Driver[T]) drop(owner types.NamespacedName) {
	for _, uid := range d.queue.of(owner) {
		if d.stop(uid, d.Steps...) {
			continue
		}
		d.forget(uid)
		d.queue.release(uid)
	}
}

// forget drops what this process knows of a run.
func (d *Driver[T]) forget(uid types.UID) {
	for _, step := range d.Steps {
		d.steps.Forget(stepID(uid, step))
	}
	d.progress.drop(uid)
	d.pace.drop(uid)
	d.Logs.Remove(string(uid))
	if d.Forget != nil {
		d.Forget(uid)
	}
}

// hold keeps the object until it owes nothing.
func (d *Driver[T]) hold(ctx context.Context, object T) error {
	patch := client.MergeFromWithOptions(copyOf(object), client.MergeFromWithOptimisticLock{})
	controllerutil.AddFinalizer(object, v1alpha1.FinalizerRun)
	if err := d.Client.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("adding the finalizer of %s %s: %w", d.Kind.Name, object.GetName(), err)
	}
	return nil
}

// advance goes through the phases until one has to wait.
func (d *Driver[T]) advance(ctx context.Context, s *Scope[T]) error {
	for _, phase := range d.Phases {
		done, err := phase(ctx, s)
		if err != nil {
			return err
		}
		if !done {
			break
		}
	}
	if Planned(s.Object) {
		s.recordActions()
	}
	return nil
}

// write records the pass, and then does what the record says.
func (d *Driver[T]) write(ctx context.Context, s *Scope[T]) error {
	written := copyOf(s.Object)
	if !equality.Semantic.DeepEqual(s.before, s.Object) {
		patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
		if err := d.Client.Status().Patch(ctx, s.Object, patch); err != nil {
			return fmt.Errorf("writing the status of %s %s: %w", d.Kind.Name, s.Object.GetName(), err)
		}
		d.tell(ctx, s.before, written)
		d.metrics.record(s.before, written)
		if d.Written != nil {
			d.Written(s.before, written)
		}
		if Decided(s.Object) {
			d.queue.release(s.Object.GetUID()) // the next one need not wait for the watch
		}
	}
	for _, f := range s.after {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// LetGo ends what holds a settled run: its HookRuns, its log, its finalizer.
// Everything in it may be repeated.
func (d *Driver[T]) LetGo(ctx context.Context, object T) error {
	d.queue.release(object.GetUID())
	if !controllerutil.ContainsFinalizer(object, v1alpha1.FinalizerRun) {
		return nil
	}
	if all, err := d.releaseRuns(ctx, object); !all || err != nil {
		return err // the watch of HookRuns brings those for which nothing is left
	}
	d.forget(object.GetUID())
	released := copyOf(object)
	patch := client.MergeFromWithOptions(copyOf(object), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerRun)
	if err := d.Client.Patch(ctx, released, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing %s %s: %w", d.Kind.Name, object.GetName(), err)
	}
	return nil
}

// quiet drops the error of a write that lost against a newer one, or whose object
// is gone: the watch brings what is newer.
func quiet(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
