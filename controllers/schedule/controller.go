// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=schedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=schedules/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles Schedules. Every field but Now is required.
type Reconciler struct {
	Client client.Client
	// Reader bypasses the cache.
	Reader   client.Reader
	Recorder events.EventRecorder
	Metrics  *Metrics
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// maxRequeue is the longest time of a timer, because a timer does not notice a change of the
// clock.
const maxRequeue = time.Hour

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Recorder == nil || r.Metrics == nil {
		return errors.New("schedule: Client, Reader, Recorder and Metrics are required")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	return r.addWatches(ctrl.NewControllerManagedBy(mgr).
		Named("schedule").
		For(&v1alpha1.Schedule{})).
		Complete(r)
}

// Reconcile reconciles one Schedule. It returns when to do so again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var s v1alpha1.Schedule
	if err := r.Client.Get(ctx, req.NamespacedName, &s); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.deleteSeries(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !s.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	seen, err := r.observeSchedule(ctx, &s)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := &reconcileScope{r: r, original: s.DeepCopy(), s: &s, observed: seen, now: r.Now()}
	cron, err := parseAndValidate(&s)
	if err != nil {
		return ctrl.Result{}, p.recordInvalidSpec(ctx, err)
	}
	return p.reconcileSchedule(ctx, cron)
}

// reconcileScope is one reconcile of a Schedule.
type reconcileScope struct {
	r *Reconciler
	// original is the Schedule as it was read, and s has the new status.
	original, s *v1alpha1.Schedule
	observed    *observedState
	now         time.Time

	decision schedule.Decision
	// backupCreated is set if this reconcile created the Backup.
	backupCreated bool
	// createError is why the Backup that is due or was requested could not be created.
	createError error
}

// reconcileSchedule carries out the decision.
func (p *reconcileScope) reconcileSchedule(ctx context.Context, cron schedule.Cron) (ctrl.Result, error) {
	p.decision = schedule.Decide(p.newDecisionInput(cron))
	if err := p.cancelReplacedBackups(ctx); err != nil {
		return ctrl.Result{}, err
	}
	p.createDueBackup(ctx)
	if isNamespaceTerminating(p.createError) {
		return ctrl.Result{}, nil
	}
	p.setStatusFromDecision()
	if written, err := p.patchStatus(ctx); err != nil || !written {
		return ctrl.Result{}, errors.Join(err, p.createError)
	}
	p.emitDecisionEvents(ctx)
	if err := errors.Join(p.createError, p.enforceKeepLimits(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.timeUntilNextReconcile()}, nil
}

// timeUntilNextReconcile returns the time until the next reconcile, at the latest.
func (p *reconcileScope) timeUntilNextReconcile() time.Duration {
	wait := p.decision.NextScheduleTime.Sub(p.r.Now())
	return max(time.Millisecond, min(wait, maxRequeue))
}
