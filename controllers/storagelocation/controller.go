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
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Opener opens locations; *location.Opener does.
type Opener interface {
	// Open opens a location.
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
	// Forget ends what is kept for a location that was deleted.
	Forget(ctx context.Context, key types.NamespacedName)
	// ForgetUID ends what is kept for a location in whose place there is another one.
	ForgetUID(ctx context.Context, uid types.UID)
}

// Reconciler checks locations. Every field but the last three is required.
type Reconciler struct {
	Client   client.Client
	Opener   Opener
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Interval is the time between two checks; 1 minute by default.
	Interval time.Duration
	// Timeout bounds one check; 30 seconds by default.
	Timeout time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time

	checks *runner.Runner[check]
	// providers has what Plugins said about the provider of a location when it was
	// checked last, by its key.
	providers sync.Map
	// uids has the UID that a location had when it was seen last, by its key.
	uids sync.Map
}

// check is what one look at a location found.
type check struct {
	// putIfAbsent is nil if the location could not be asked.
	putIfAbsent *bool
	problem     error
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
	r.checks = runner.New[check](func(owner types.NamespacedName) {
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
		Watches(&v1alpha1.Plugin{}, handler.EnqueueRequestsFromMapFunc(r.inPlugins)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile starts a check where one is due and records the last one.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var bsl v1alpha1.BackupStorageLocation
	if err := r.Client.Get(ctx, req.NamespacedName, &bsl); err != nil {
		if apierrors.IsNotFound(err) {
			r.Opener.Forget(ctx, req.NamespacedName)
			r.providers.Delete(req.NamespacedName)
			r.uids.Delete(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.forgetPredecessor(ctx, &bsl)
	if !bsl.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	provider, err := r.provider(ctx, &bsl)
	if err != nil {
		return ctrl.Result{}, err
	}
	id := fmt.Sprintf("%s/%d", bsl.UID, bsl.Generation)
	outcome, known := r.checks.State(id)
	switch {
	case known && outcome == nil:
		return ctrl.Result{}, nil
	case known:
		if err := r.record(ctx, &bsl, *outcome); err != nil {
			return ctrl.Result{}, ignoreConflict(err)
		}
		r.checks.Forget(id)
		if !r.isNews(req.NamespacedName, provider) {
			return ctrl.Result{RequeueAfter: r.Interval}, nil
		}
	}
	if wait := r.untilDue(&bsl); wait > 0 && !r.isNews(req.NamespacedName, provider) {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.providers.Store(req.NamespacedName, provider)
	if !r.checks.Ensure(id, req.NamespacedName, func(ctx context.Context) (check, error) { return r.look(ctx, &bsl), nil }) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// forgetPredecessor ends what is kept for an earlier location of that name: one that is
// created again at once is never seen to be missing. What is read here gets only newer,
// which is not so for the objects that others open: those may be of the predecessor.
func (r *Reconciler) forgetPredecessor(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) {
	before, _ := r.uids.Swap(client.ObjectKeyFromObject(bsl), bsl.UID)
	if uid, known := before.(types.UID); known && uid != bsl.UID {
		r.Opener.ForgetUID(ctx, uid)
	}
}

// untilDue returns how long the last check of this generation is still good.
func (r *Reconciler) untilDue(bsl *v1alpha1.BackupStorageLocation) time.Duration {
	available := conditions.Get(bsl, v1alpha1.ConditionAvailable)
	if available == nil || available.ObservedGeneration != bsl.Generation || bsl.Status.LastValidationTime == nil {
		return 0
	}
	return bsl.Status.LastValidationTime.Add(r.Interval).Sub(r.Now())
}

// look opens the location and tries it.
func (r *Reconciler) look(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) check {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	store, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return check{problem: err}
	}
	if bsl.Spec.AccessMode == v1alpha1.AccessModeReadOnly {
		err = store.ProbeReadOnly(ctx)
	} else {
		err = store.Probe(ctx)
	}
	found := check{problem: errors.Join(err, store.Close())}
	if err == nil {
		can := store.Capabilities().PutIfAbsent
		found.putIfAbsent = &can
	}
	return found
}

// record writes what a check found, and tells people when it changed.
func (r *Reconciler) record(ctx context.Context, bsl *v1alpha1.BackupStorageLocation, outcome runner.Outcome[check]) error {
	problem := outcome.Value.problem
	if outcome.Err != nil {
		ctrl.LoggerFrom(ctx).Error(outcome.Err, "The check of a location failed inside the operator")
		problem = errInternal
	}
	was := bsl.Status.Phase
	before := bsl.DeepCopy()
	now := metav1.NewTime(r.Now())
	bsl.Status.LastValidationTime = &now
	if outcome.Value.putIfAbsent != nil {
		bsl.Status.PutIfAbsent = outcome.Value.putIfAbsent
	}
	if problem == nil {
		bsl.Status.Phase, bsl.Status.Message = v1alpha1.LocationPhaseAvailable, ""
		const message = "The location can be used"
		conditions.Set(bsl, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable, message)
		conditions.Summary(bsl, conditions.Current, v1alpha1.ReasonAvailable, message)
	} else {
		reason := v1alpha1.ReasonUnavailable
		if errors.Is(problem, location.ErrSpec) {
			reason = v1alpha1.ReasonInvalidSpec
		}
		message := executor.OneLine(r.Redactor.String(problem.Error()))
		bsl.Status.Phase, bsl.Status.Message = v1alpha1.LocationPhaseUnavailable, message
		conditions.Set(bsl, v1alpha1.ConditionAvailable, metav1.ConditionFalse, reason, message)
		conditions.Summary(bsl, conditions.StalledRetrying, reason, message)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, bsl, patch); err != nil {
		return fmt.Errorf("writing the status of location %s: %w", bsl.Name, err)
	}
	if bsl.Status.Phase != was {
		r.tell(bsl)
	}
	return nil
}

var errInternal = errors.New("internal error; see the operator's log")

func (r *Reconciler) tell(bsl *v1alpha1.BackupStorageLocation) {
	if bsl.Status.Phase == v1alpha1.LocationPhaseAvailable {
		r.Recorder.Eventf(bsl, nil, corev1.EventTypeNormal, v1alpha1.ReasonAvailable, "Check", "The location can be used")
		return
	}
	r.Recorder.Eventf(bsl, nil, corev1.EventTypeWarning, v1alpha1.ReasonUnavailable, "Check", "%s", bsl.Status.Message)
}

// ignoreConflict drops the error of a write that lost against a newer one: the
// watch brings the newer object.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
