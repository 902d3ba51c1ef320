// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

const (
	// recheckInterval limits the wait for a distant time: a timer does not notice that a clock was
	// changed.
	recheckInterval = time.Hour
	// initialBackoff is the first wait after a workload could not be unquiesced. It is short
	// because an application is down.
	initialBackoff = time.Second
)

// Quiescer unquiesces workloads whose holds have expired. internal/executor/quiesce implements it as
// *quiesce.Quiescer.
type Quiescer interface {
	ReleaseExpired(ctx context.Context, now time.Time, ended []string, refs ...quiesce.Ref) (quiesce.Result, error)
}

// Reconciler unquiesces workloads that are quiesced for too long, or for no unfinished run. All
// fields except Now are required.
type Reconciler struct {
	// Client reads Backups and Restores from the manager's cache.
	Client client.Reader
	// APIReader reads the metadata of Backups and Restores of all namespaces, bypassing the cache.
	APIReader client.Reader
	Quiescer  Quiescer
	Recorder  events.EventRecorder
	// Now is the clock; time.Now by default.
	Now func() time.Time

	// workloadReader reads the metadata of the workloads with the label.
	workloadReader client.Reader
	// holderTimes is kept between two reconciles, which never overlap.
	holderTimes endedHolderTimes
}

// SetupWithManager registers the controller. With leader election, only the leader reconciles and
// watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.APIReader == nil || r.Quiescer == nil || r.Recorder == nil {
		return errors.New("quiesce: Client, APIReader, Quiescer and Recorder are required")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	sources, err := r.setupWorkloadSources(mgr)
	if err != nil {
		return err
	}
	gaveUp := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return hasBecomeFinalizedOrLost(e.ObjectOld, e.ObjectNew) },
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("quiesce").
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(runToSingletonRequest), gaveUp).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(runToSingletonRequest), gaveUp).
		WithOptions(controller.Options{
			RateLimiter: backoff.NewRateLimiter[reconcile.Request](initialBackoff),
		})
	for _, s := range sources {
		b = b.WatchesRawSource(s)
	}
	return b.Complete(r)
}

// singletonRequest returns the only request of this controller.
func singletonRequest() []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "all"}}}
}

func runToSingletonRequest(context.Context, client.Object) []reconcile.Request {
	return singletonRequest()
}

// Reconcile reads all quiesced workloads, unquiesces those whose holds have expired or whose
// holders have ended, and requeues for the next expiration. One request covers all of them, because
// they are unquiesced in the order in which an application starts.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.Now()
	held, err := r.listHeldWorkloads(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	ended, next, unknown := r.observeEndedHolders(ctx, held.holderUIDs(), now)
	due, at := held.expiredWorkloads(now, ended)
	next = earlierNonZeroTime(next, at)
	if len(due) == 0 {
		if unknown != nil {
			return ctrl.Result{}, unknown
		}
		return r.requeueResult(next), nil
	}
	result, err := r.Quiescer.ReleaseExpired(ctx, now, ended, slices.Collect(maps.Keys(due))...)
	r.emitReleaseEvents(ctx, due, ended, result)
	switch err = errors.Join(err, unknown); {
	case err != nil:
		return ctrl.Result{}, err
	case result.RetryAfter > 0:
		return ctrl.Result{RequeueAfter: result.RetryAfter}, nil
	}
	return r.requeueResult(earlierNonZeroTime(next, result.NextExpiration)), nil
}

// requeueResult returns when to reconcile again. The watch reports workloads that are quiesced in
// the meantime.
func (r *Reconciler) requeueResult(next time.Time) ctrl.Result {
	if next.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(time.Millisecond, min(next.Sub(r.Now()), recheckInterval))}
}

// earlierNonZeroTime returns the earlier of two times; zero is never.
func earlierNonZeroTime(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
