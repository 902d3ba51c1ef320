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
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workloads "github.com/grapnel-dev/grapnel/internal/quiesce"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

const (
	// recheck bounds how long a time is waited for that is far away: a timer does not notice
	// that a clock was set.
	recheck = time.Hour
	// The times between two tries if something could not be given back. An application waits.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Quiescer gives back what is overdue. *quiesce.Quiescer of internal/quiesce is one.
type Quiescer interface {
	Overdue(ctx context.Context, now time.Time, refs ...state.Ref) (workloads.Result, error)
}

// Reconciler gives back workloads that are quiesced for too long. Every field but Now is
// required.
type Reconciler struct {
	// Client reads Backups and Restores; the one of the manager, which has them in its cache.
	Client   client.Reader
	Quiescer Quiescer
	Recorder events.EventRecorder
	// Now is the clock; time.Now by default.
	Now func() time.Time

	// quiesced reads the metadata of the workloads with the label.
	quiesced client.Reader
}

// SetupWithManager registers the controller. Where there is a leader, only it works, and only
// it watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Quiescer == nil || r.Recorder == nil {
		return errors.New("quiesce: Client, Quiescer and Recorder are required")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	sources, err := r.watch(mgr)
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("quiesce").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	for _, s := range sources {
		b = b.WatchesRawSource(s)
	}
	return b.Complete(r)
}

// Reconcile looks at all workloads that are quiesced, gives back those whose time is over, and
// returns when the next one's is. There is one request for all of them: they are given back in
// the order in which an application starts.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.Now()
	due, next, err := r.look(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(due) == 0 {
		return r.sleep(next), nil
	}
	result, err := r.Quiescer.Overdue(ctx, now, slices.Collect(maps.Keys(due))...)
	r.tell(ctx, due, result)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case result.Again > 0:
		return ctrl.Result{RequeueAfter: result.Again}, nil
	}
	return r.sleep(earlier(next, result.Next)), nil
}

// sleep returns when to look again; the watch tells of what is quiesced until then.
func (r *Reconciler) sleep(next time.Time) ctrl.Result {
	if next.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(time.Millisecond, min(next.Sub(r.Now()), recheck))}
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
