// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Opener opens locations; *location.Opener does.
type Opener interface {
	// Open opens a location.
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
	// ReleaseDeletedLocation releases the resources held for a deleted location.
	ReleaseDeletedLocation(ctx context.Context, key types.NamespacedName)
	// ReleaseReplacedLocation releases the resources held for a location that was replaced by
	// another one of the same name.
	ReleaseReplacedLocation(ctx context.Context, uid types.UID)
}

// Reconciler checks locations. Every field but the last three is required.
type Reconciler struct {
	Client   client.Client
	Opener   Opener
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Interval is the time between two checks of locations that do not set it; 1 minute by default.
	Interval time.Duration
	// Timeout limits one check; 30 seconds by default.
	Timeout time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time

	checks *runner.Runner[checkResult]
	// providerStates maps the key of a location to the state of its provider at the last check,
	// as reported by Plugins.
	providerStates sync.Map
	// uids maps the key of a location to its last observed UID.
	uids sync.Map
	// checkStarts maps the id of a running check to its start.
	checkStarts sync.Map
}

// checkResult is the result of one check of a location.
type checkResult struct {
	// putIfAbsent is nil if it is unknown.
	putIfAbsent *bool
	problem     error
	// fullError is why nothing can be written to a location that can be read.
	fullError error
	space     objectstore.Space
}

// SetupWithManager registers the controller and its background checks.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Opener == nil || r.Recorder == nil || r.Redactor == nil {
		return errors.New("storagelocation: Client, Opener, Recorder and Redactor are required")
	}
	if r.Interval == 0 {
		r.Interval = time.Minute
	}
	if r.Timeout == 0 {
		r.Timeout = 30 * time.Second
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	woken := make(chan event.GenericEvent, 64)
	r.checks = runner.New[checkResult](func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	})
	if err := mgr.Add(r.checks); err != nil {
		return fmt.Errorf("adding the background checks: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("storagelocation").
		For(&v1alpha1.BackupStorageLocation{}).
		Watches(&v1alpha1.Plugin{}, handler.EnqueueRequestsFromMapFunc(r.pluginToLocations)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile starts a check where one is due and records the last one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var bsl v1alpha1.BackupStorageLocation
	if err := r.Client.Get(ctx, req.NamespacedName, &bsl); err != nil {
		if apierrors.IsNotFound(err) {
			r.Opener.ReleaseDeletedLocation(ctx, req.NamespacedName)
			r.providerStates.Delete(req.NamespacedName)
			r.uids.Delete(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.releaseReplacedLocation(ctx, &bsl)
	if !bsl.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	provider, err := r.providerState(ctx, &bsl)
	if err != nil {
		return ctrl.Result{}, err
	}
	id := fmt.Sprintf("%s/%d", bsl.UID, bsl.Generation)
	outcome, known := r.checks.LookupOutcome(id)
	switch {
	case known && outcome == nil:
		return r.reconcileRunningCheck(ctx, &bsl, id)
	case known:
		r.checkStarts.Delete(id)
		if err := r.recordCheckResult(ctx, &bsl, *outcome); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
		r.checks.Forget(id)
		if !r.hasProviderChanged(req.NamespacedName, provider) {
			return ctrl.Result{RequeueAfter: checkInterval(&bsl, r.Interval)}, nil
		}
	}
	if due, wait := isCheckDue(&bsl, r.Interval, r.Now()); !due && !r.hasProviderChanged(req.NamespacedName, provider) {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.providerStates.Store(req.NamespacedName, provider)
	r.checkStarts.Store(id, r.Now())
	if !r.checks.EnsureStarted(id, req.NamespacedName, func(ctx context.Context) (checkResult, error) { return r.checkLocation(ctx, &bsl), nil }) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: 2 * r.Timeout}, nil
}

// reconcileRunningCheck waits for a running check. A check that exceeds its timeout makes the
// location Unavailable.
func (r *Reconciler) reconcileRunningCheck(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, id string) (ctrl.Result, error) {
	begun, _ := r.checkStarts.Load(id)
	at, _ := begun.(time.Time)
	if wait := at.Add(2 * r.Timeout).Sub(r.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if available := conditions.Get(bsl, v1alpha1.ConditionAvailable); available != nil &&
		available.Status == metav1.ConditionFalse && available.ObservedGeneration == bsl.Generation {
		return ctrl.Result{RequeueAfter: r.Interval}, nil
	}
	hung := runner.Outcome[checkResult]{Value: checkResult{problem: r.notRespondingError()}}
	return ctrl.Result{RequeueAfter: r.Interval}, ignoreConflict(r.recordCheckResult(ctx, bsl, hung))
}

// notRespondingError is the problem of a location that does not respond.
func (r *Reconciler) notRespondingError() error {
	return fmt.Errorf("the location does not answer: a check did not finish within %s; check its volume or service", r.Timeout)
}

// releaseReplacedLocation releases the resources held for an earlier location of the same name: the
// deletion of a location that is recreated immediately may never be observed. The objects read here
// only get newer. Those read by other callers of the opener may be older and of the predecessor.
func (r *Reconciler) releaseReplacedLocation(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) {
	before, _ := r.uids.Swap(client.ObjectKeyFromObject(bsl), bsl.UID)
	if uid, known := before.(types.UID); known && uid != bsl.UID {
		r.Opener.ReleaseReplacedLocation(ctx, uid)
	}
}

// isCheckDue reports whether a location needs a check now, or else when; 0 means not before it changes. A time in the
// future was recorded by a clock that has been set back since.
func isCheckDue(bsl *v1alpha1.BackupStorageLocation, fallback time.Duration, now time.Time) (due bool, wait time.Duration) {
	available := conditions.Get(bsl, v1alpha1.ConditionAvailable)
	if available == nil || available.ObservedGeneration != bsl.Generation || bsl.Status.LastValidationTime == nil {
		return true, 0
	}
	interval := checkInterval(bsl, fallback)
	if interval == 0 {
		return false, 0
	}
	wait = bsl.Status.LastValidationTime.Add(interval).Sub(now)
	return wait <= 0 || wait > interval, wait
}

// fullCheckInterval is the time between two checks of a full location. It is short, so that the
// location can be used soon after something was deleted.
const fullCheckInterval = 10 * time.Second

// checkInterval returns the time until the next check of a location; 0 means that it is not checked before it changes.
// One that cannot be used is not left alone for longer than others, because nothing else notices that it can be again.
func checkInterval(bsl *v1alpha1.BackupStorageLocation, fallback time.Duration) time.Duration {
	own := bsl.Spec.CheckInterval
	switch {
	case bsl.Status.Phase == v1alpha1.LocationPhaseAvailable && own != nil:
		return own.Duration
	case bsl.Status.Phase == v1alpha1.LocationPhaseFull:
		fallback = min(fallback, fullCheckInterval)
	}
	if own != nil && own.Duration > 0 {
		return min(own.Duration, fallback)
	}
	return fallback
}

// checkLocation opens the location and checks it.
func (r *Reconciler) checkLocation(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) checkResult {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	found := r.probeLocation(ctx, bsl)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && found.problem != nil {
		found.problem = fmt.Errorf("%w (%w)", r.notRespondingError(), found.problem)
	}
	return found
}

// probeLocation opens the location, lists it, and writes, reads and deletes an object if that is
// allowed.
func (r *Reconciler) probeLocation(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (found checkResult) {
	store, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return checkResult{problem: err}
	}
	defer func() { found.problem = errors.Join(found.problem, store.Close()) }()
	if bsl.Spec.AccessMode == v1alpha1.AccessModeReadOnly {
		err = store.ProbeReadOnly(ctx)
	} else {
		err = store.Probe(ctx)
	}
	switch {
	case errors.Is(err, objectstore.ErrNoSpace): // it was listed before
		return checkResult{fullError: err}
	case err != nil:
		return checkResult{problem: err}
	}
	can := store.Capabilities().PutIfAbsent
	found.putIfAbsent = &can
	found.space, err = store.Space(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the free space of a location failed", "location", bsl.Name)
	}
	return found
}

// recordCheckResult records the result of a check, and emits an event when it changed.
func (r *Reconciler) recordCheckResult(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, outcome runner.Outcome[checkResult]) error {
	problem := outcome.Value.problem
	if outcome.Err != nil {
		ctrl.LoggerFrom(ctx).Error(outcome.Err, "Checking a location failed with an internal error")
		problem = errInternal
	}
	was, wasWritable := bsl.Status.Phase, writableReason(bsl)
	before := bsl.DeepCopy()
	now := metav1.NewTime(r.Now())
	bsl.Status.LastValidationTime = &now
	if outcome.Value.putIfAbsent != nil {
		bsl.Status.PutIfAbsent = outcome.Value.putIfAbsent
	}
	r.setStatusFromCheck(bsl, problem, outcome.Value)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, bsl, patch); err != nil {
		return fmt.Errorf("writing the status of location %s: %w", bsl.Name, err)
	}
	if bsl.Status.Phase != was || (writableReason(bsl) != wasWritable && writableReason(bsl) == v1alpha1.ReasonAlmostFull) {
		r.emitCheckEvent(bsl)
	}
	return nil
}

var errInternal = errors.New("internal error; see the operator's log")

// emitCheckEvent emits an event with the result of a check.
func (r *Reconciler) emitCheckEvent(bsl *v1alpha1.BackupStorageLocation) {
	emit := func(kind, reason, message string) {
		r.Recorder.Eventf(bsl, nil, kind, reason, "Check", "%s", message)
	}
	switch {
	case bsl.Status.Phase == v1alpha1.LocationPhaseUnavailable:
		emit(corev1.EventTypeWarning, v1alpha1.ReasonUnavailable, bsl.Status.Message)
	case bsl.Status.Phase == v1alpha1.LocationPhaseFull:
		emit(corev1.EventTypeWarning, v1alpha1.ReasonFull, bsl.Status.Message)
	case writableReason(bsl) == v1alpha1.ReasonAlmostFull:
		emit(corev1.EventTypeWarning, v1alpha1.ReasonAlmostFull, conditions.Get(bsl, v1alpha1.ConditionWritable).Message)
	default:
		emit(corev1.EventTypeNormal, v1alpha1.ReasonAvailable, availableMessage)
	}
}

// ignoreConflict drops the error of a write that conflicts with a newer one: the watch delivers
// the newer object.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
