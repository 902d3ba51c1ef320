// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// objectsPerSecond is how many objects are created or changed, and burst how many of
	// them at once.
	objectsPerSecond, burst = 10, 10
	// maxLooks is how many locations are looked at at the same time.
	maxLooks = 4
	// eventPause is the time between two looks if something happens all the time.
	eventPause = 2 * time.Second
)

// Opener opens locations; *location.Opener does.
type Opener interface {
	// Open opens a location.
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
}

// Reconciler has locations looked at. Every field but the last three is required.
type Reconciler struct {
	// Client reads from a cache, Reader past it.
	Client   client.Client
	Reader   client.Reader
	Opener   Opener
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	Metrics  *Metrics
	// Interval is the time from the end of a look to the next one; 1 minute by default.
	Interval time.Duration
	// Limiter gives turns to create and change objects; 10 a second by default.
	Limiter Limiter
	// Now is the clock; time.Now by default.
	Now func() time.Time

	looker *Looker
	looks  *runner.Runner[outcome]
	places places
	slots  chan struct{}
}

// outcome is what came of one look.
type outcome struct {
	report  Report
	problem error
}

// SetupWithManager registers the controller and its background looks.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Opener == nil || r.Recorder == nil || r.Redactor == nil || r.Metrics == nil {
		return errors.New("backupsync: Client, Reader, Opener, Recorder, Redactor and Metrics are required")
	}
	if r.Interval == 0 {
		r.Interval = time.Minute
	}
	if r.Limiter == nil {
		r.Limiter = flowcontrol.NewTokenBucketRateLimiter(objectsPerSecond, burst)
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	r.slots = make(chan struct{}, maxLooks)
	r.looker = &Looker{
		Client: r.Client, Reader: r.Reader, Recorder: r.Recorder, Redactor: r.Redactor, Limiter: r.Limiter, Pause: r.Interval, Now: r.Now,
	}
	woken := make(chan event.GenericEvent, 64)
	r.looks = runner.New[outcome](func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	})
	if err := mgr.Add(r.looks); err != nil {
		return fmt.Errorf("adding the background looks: %w", err)
	}
	if err := r.watchEnds(mgr); err != nil {
		return fmt.Errorf("watching the ends of Backups: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("backupsync").
		For(&v1alpha1.BackupStorageLocation{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.ofBare), builder.WithPredicates(bare())).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.ofDeletion), builder.WithPredicates(givenUp())).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile starts a look where one is due and records the last one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var bsl v1alpha1.BackupStorageLocation
	err := r.Client.Get(ctx, req.NamespacedName, &bsl)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, err
	case err != nil:
		r.enter(req.NamespacedName, "")
		r.Metrics.forget(req.Name)
		return r.tellHomeless(ctx, req.NamespacedName)
	case !bsl.DeletionTimestamp.IsZero():
		r.enter(req.NamespacedName, "")
		return ctrl.Result{}, nil
	}
	id := fmt.Sprintf("%s/%d", bsl.UID, bsl.Generation)
	r.enter(req.NamespacedName, id)
	switch ended, known := r.looks.State(id); {
	case known && ended == nil:
		return ctrl.Result{}, nil
	case known:
		if err := r.record(ctx, &bsl, *ended); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
		r.looks.Forget(id)
		r.places.end(req.NamespacedName, r.Now())
	}
	if !isAvailable(&bsl) {
		r.places.end(req.NamespacedName, time.Time{})
		return ctrl.Result{}, nil
	}
	if wait := r.places.wait(req.NamespacedName, r.Now(), r.Interval, eventPause); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	memory := r.places.begin(req.NamespacedName)
	if !r.looks.Ensure(id, req.NamespacedName, func(ctx context.Context) (outcome, error) { return r.look(ctx, &bsl, memory) }) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// enter notes what a location is now, and ends the looks at what it was.
func (r *Reconciler) enter(key types.NamespacedName, id string) {
	for _, earlier := range r.places.enter(key, id) {
		r.looks.Cancel(earlier, errChanged)
		r.looks.Forget(earlier)
		if _, known := r.looks.State(earlier); !known {
			r.places.left(key, earlier)
		}
	}
	r.places.tidy(key)
}

var errChanged = errors.New("the location was changed or deleted")

// isAvailable says whether a location can be read as it is written now.
func isAvailable(bsl *v1alpha1.BackupStorageLocation) bool {
	available := conditions.Get(bsl, v1alpha1.ConditionAvailable)
	return available != nil && available.Status == metav1.ConditionTrue && available.ObservedGeneration == bsl.Generation
}

// look looks at a location when it is its turn.
func (r *Reconciler) look(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, memory *Memory) (outcome, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return outcome{}, context.Cause(ctx)
	}
	began := r.Now()
	report, err := r.inside(ctx, bsl, memory)
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	r.Metrics.looked(bsl.Name, r.Now().Sub(began), report, err)
	return outcome{report: report, problem: err}, nil
}

// inside opens a location and looks at it.
func (r *Reconciler) inside(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, memory *Memory) (report Report, err error) {
	opened, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return r.looker.Look(ctx, opened.Store, bsl, memory)
}
