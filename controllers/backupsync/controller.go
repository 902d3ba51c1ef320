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
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores,verbs=list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// objectsPerSecond is how many objects are created or changed per second, and objectBurst
	// how many at once.
	objectsPerSecond, objectBurst = 10, 10
	// maxConcurrentSyncs is how many locations are synced at the same time.
	maxConcurrentSyncs = 4
	// minEventInterval is the time between two syncs under continuous events.
	minEventInterval = 2 * time.Second
)

// Opener opens locations; *location.Opener does.
type Opener interface {
	// Open opens a location.
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
}

// Reconciler syncs locations. Every field but the last three is required.
type Reconciler struct {
	// Client reads from a cache, Reader bypasses it.
	Client   client.Client
	Reader   client.Reader
	Opener   Opener
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	Metrics  *Metrics
	// Interval is the time from the end of a sync to the next one, for locations that do not set it; 1 minute by default.
	Interval time.Duration
	// Limiter limits the rate at which objects are created and changed; 10 a second by default.
	Limiter Limiter
	// Now is the clock; time.Now by default.
	Now func() time.Time

	syncer    *Syncer
	syncs     *runner.Runner[syncResult]
	locations locationStates
	syncSlots chan struct{}
}

// syncResult is the result of one sync.
type syncResult struct {
	report  Report
	problem error
}

// SetupWithManager registers the controller and its background syncs.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Opener == nil || r.Recorder == nil || r.Redactor == nil || r.Metrics == nil {
		return errors.New("backupsync: Client, Reader, Opener, Recorder, Redactor and Metrics are required")
	}
	if r.Interval == 0 {
		r.Interval = time.Minute
	}
	if r.Limiter == nil {
		r.Limiter = flowcontrol.NewTokenBucketRateLimiter(objectsPerSecond, objectBurst)
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	r.syncSlots = make(chan struct{}, maxConcurrentSyncs)
	r.syncer = &Syncer{
		Client: r.Client, Reader: r.Reader, Recorder: r.Recorder, Redactor: r.Redactor, Limiter: r.Limiter, RereadBackoff: r.Interval, Now: r.Now,
	}
	woken := make(chan event.GenericEvent, 64)
	r.syncs = runner.New[syncResult](func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	})
	if err := mgr.Add(r.syncs); err != nil {
		return fmt.Errorf("adding the background syncs: %w", err)
	}
	if err := r.setupFinishedBackupController(mgr); err != nil {
		return fmt.Errorf("watching finished Backups: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("backupsync").
		For(&v1alpha1.BackupStorageLocation{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.backupToLocation), builder.WithPredicates(pendingImportPredicate())).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.deletionRunToLocation), builder.WithPredicates(failedDeletionRunPredicate())).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile starts a sync where one is due and records the last one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var bsl v1alpha1.BackupStorageLocation
	err := r.Client.Get(ctx, req.NamespacedName, &bsl)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, err
	case err != nil:
		r.cancelOutdatedSyncs(req.NamespacedName, "")
		r.Metrics.deleteSeries(req.Name)
		return r.stallImportsWithoutLocation(ctx, req.NamespacedName)
	case !bsl.DeletionTimestamp.IsZero():
		r.cancelOutdatedSyncs(req.NamespacedName, "")
		return ctrl.Result{}, nil
	}
	id := fmt.Sprintf("%s/%d", bsl.UID, bsl.Generation)
	r.cancelOutdatedSyncs(req.NamespacedName, id)
	switch ended, known := r.syncs.LookupOutcome(id); {
	case known && ended == nil:
		return ctrl.Result{}, nil
	case known:
		if err := r.recordSyncResult(ctx, &bsl, *ended); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
		r.syncs.Forget(id)
		r.locations.recordSyncEnd(req.NamespacedName, r.Now())
	}
	if !isAvailable(&bsl) {
		r.locations.recordSyncEnd(req.NamespacedName, time.Time{})
		return ctrl.Result{}, nil
	}
	if wait := r.locations.timeUntilSync(req.NamespacedName, r.Now(), bsl.Spec.SyncInterval(r.Interval), minEventInterval); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	memory := r.locations.beginSync(req.NamespacedName)
	if !r.syncs.EnsureStarted(id, req.NamespacedName, func(ctx context.Context) (syncResult, error) { return r.syncWithSlot(ctx, &bsl, memory) }) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// cancelOutdatedSyncs records the current generation of a location, and cancels the syncs of
// earlier ones.
func (r *Reconciler) cancelOutdatedSyncs(key types.NamespacedName, id string) {
	for _, earlier := range r.locations.trackGeneration(key, id) {
		r.syncs.Cancel(earlier, errLocationChanged)
		r.syncs.Forget(earlier)
		if _, known := r.syncs.LookupOutcome(earlier); !known {
			r.locations.forgetGeneration(key, earlier)
		}
	}
	r.locations.pruneLocation(key)
}

var errLocationChanged = errors.New("the location was changed or deleted")

// isAvailable reports whether the current generation of a location can be read.
func isAvailable(bsl *v1alpha1.BackupStorageLocation) bool {
	available := conditions.Get(bsl, v1alpha1.ConditionAvailable)
	return available != nil && available.Status == metav1.ConditionTrue && available.ObservedGeneration == bsl.Generation
}

// syncWithSlot syncs a location once it has acquired a slot.
func (r *Reconciler) syncWithSlot(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, memory *Cache) (syncResult, error) {
	select {
	case r.syncSlots <- struct{}{}:
		defer func() { <-r.syncSlots }()
	case <-ctx.Done():
		return syncResult{}, context.Cause(ctx)
	}
	began := r.Now()
	report, err := r.syncLocation(ctx, bsl, memory)
	if ctx.Err() != nil {
		return syncResult{}, context.Cause(ctx)
	}
	r.Metrics.recordSync(bsl.Name, r.Now().Sub(began), report, err)
	return syncResult{report: report, problem: err}, nil
}

// syncLocation opens a location and syncs it.
func (r *Reconciler) syncLocation(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, memory *Cache) (report Report, err error) {
	opened, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return r.syncer.Sync(ctx, opened.Store, bsl, memory)
}
