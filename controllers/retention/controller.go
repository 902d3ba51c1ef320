// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/clock"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores;schedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations/status,verbs=get;update;patch

// Reconciler destroys the data of expired Backups. Every field but the last two is required.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	// Metrics is the registry for the metrics.
	Metrics prometheus.Registerer
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// ServerTime returns the time of the API server; by default it sends a request.
	ServerTime func(ctx context.Context, namespace string) (time.Time, error)

	dataLeftBehind prometheus.Counter
	expiryCounts   expiryCountsCache
	// expiring is held from the check whether a Backup may expire until its DeletionRun is counted.
	expiring sync.Mutex
}

// maxConcurrentReconciles is how many Backups are reconciled in parallel. Each of a thousand expired
// Backups needs three writes.
const maxConcurrentReconciles = 4

// recheckInterval limits how long Reconcile waits for a time in the far future: a clock may be set. It
// is also how long a DeletionRun that did nothing blocks the next one.
const recheckInterval = time.Hour

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Recorder == nil || r.Metrics == nil {
		return errors.New("retention: a required field of the Reconciler is missing")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.ServerTime == nil {
		r.ServerTime = func(ctx context.Context, namespace string) (time.Time, error) {
			return clock.FetchServerTime(ctx, r.Client, namespace)
		}
	}
	r.dataLeftBehind = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "grapnel_data_left_behind_total",
		Help: "Backups with deletionPolicy Delete whose stored data stays, because their namespace was being deleted.",
	})
	if err := r.Metrics.Register(r.dataLeftBehind); err != nil {
		return fmt.Errorf("registering the metrics of retention: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("retention").
		For(&v1alpha1.Backup{}).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.deletionRunToBackup),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: isDeletionRunUpdateRelevant})).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(r.restoreToBackups)).
		Watches(&v1alpha1.Schedule{}, handler.EnqueueRequestsFromMapFunc(r.scheduleToBackups), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BackupStorageLocation{}, handler.EnqueueRequestsFromMapFunc(r.locationToBackups), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete(r)
}

// Reconcile ensures that one Backup is kept, and destroyed, when it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b v1alpha1.Backup
	if err := r.Client.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: recheckInterval}, r.reconcileDeletedBackup(ctx, &b)
	}
	if changed, err := r.reconcileFinalizer(ctx, &b); changed || err != nil {
		return ctrl.Result{}, err // the watch delivers the changed object
	}
	return r.reconcileExpiration(ctx, &b)
}

// reconcileFinalizer ensures that Backups which must be deleted with their data have the finalizer,
// and that others, which no DeletionRun has claimed, do not: their deletion must not need an operator.
func (r *Reconciler) reconcileFinalizer(ctx context.Context, b *v1alpha1.Backup) (changed bool, err error) {
	before := b.DeepCopy()
	if b.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && b.Spec.ImportedFrom == nil {
		changed = controllerutil.AddFinalizer(b, v1alpha1.FinalizerStoredData)
	} else if claim, err := r.findClaim(ctx, b); claim != nil || err != nil {
		return false, err // the claim includes the finalizer
	} else {
		changed = controllerutil.RemoveFinalizer(b, v1alpha1.FinalizerStoredData)
	}
	if !changed {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, b, patch); err != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("changing the finalizers of Backup %s: %w", b.Name, err)
	}
	return true, nil
}

// isDeletionRunUpdateRelevant reports whether a Backup depends on what changed in its DeletionRun. Most
// changes are about progress.
func isDeletionRunUpdateRelevant(e event.UpdateEvent) bool {
	before, isRun := e.ObjectOld.(*v1alpha1.DeletionRun)
	after, isRunAfter := e.ObjectNew.(*v1alpha1.DeletionRun)
	if !isRun || !isRunAfter {
		return false
	}
	return before.Status.BackupName != after.Status.BackupName || before.Status.BackupUID != after.Status.BackupUID ||
		isActiveDeletionRun(before) != isActiveDeletionRun(after) ||
		conditions.IsTrue(before, v1alpha1.ConditionDataDeleted) != conditions.IsTrue(after, v1alpha1.ConditionDataDeleted)
}

// deletionRunToBackup maps a DeletionRun to its Backups.
func (r *Reconciler) deletionRunToBackup(_ context.Context, object client.Object) []reconcile.Request {
	d, ok := object.(*v1alpha1.DeletionRun)
	if !ok {
		return nil
	}
	name := d.Spec.BackupName
	if d.Status.BackupName != "" {
		name = d.Status.BackupName
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: d.Namespace, Name: name}}}
}

// restoreToBackups maps a Restore to the expired Backups that wait for its end.
func (r *Reconciler) restoreToBackups(ctx context.Context, object client.Object) []reconcile.Request {
	restore, ok := object.(*v1alpha1.Restore)
	if !ok || (!lifecycle.IsFinished(restore) && restore.DeletionTimestamp.IsZero()) {
		return nil
	}
	return r.enqueueExpiredBackups(ctx, restore.Namespace, func(b *v1alpha1.Backup) bool { return retention.UsesBackup(restore, b) })
}

// scheduleToBackups maps a Schedule to its expired Backups: it may protect fewer of them now, or
// have been deleted.
func (r *Reconciler) scheduleToBackups(ctx context.Context, object client.Object) []reconcile.Request {
	return r.enqueueExpiredBackups(ctx, object.GetNamespace(), func(b *v1alpha1.Backup) bool { return retention.BelongsToSchedule(b, object.GetName()) })
}

// locationToBackups maps a location to its expired Backups: a user may have allowed their
// expiry.
func (r *Reconciler) locationToBackups(ctx context.Context, object client.Object) []reconcile.Request {
	r.expiryCounts.deleteCounts(client.ObjectKeyFromObject(object))
	return r.enqueueExpiredBackups(ctx, object.GetNamespace(), func(b *v1alpha1.Backup) bool { return b.Location() == object.GetName() })
}

// enqueueExpiredBackups returns requests for the expired Backups of a namespace that match wanted.
func (r *Reconciler) enqueueExpiredBackups(ctx context.Context, namespace string, wanted func(*v1alpha1.Backup) bool) []reconcile.Request {
	var list v1alpha1.BackupList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // listing from a started cache cannot fail
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if b := &list.Items[i]; b.Status.Expiration != nil && !b.Status.Expiration.After(r.Now()) && wanted(b) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return requests
}
