// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores;deletionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Catalog finds what runs an action.
type Catalog interface {
	Executor(pluginObject, kind, action string) (executor.Executor, error)
	// Resumer returns what ends what any action of a plugin began, also one that the plugin
	// does not provide any more; nil if it is not loaded, or nothing goes on without the operator.
	Resumer(pluginObject string) executor.Resumer
	// Tried returns a channel that is closed once it was tried to load the plugin.
	Tried(pluginObject string) <-chan struct{}
}

// Reconciler executes HookRuns. Every field but Now is required.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Catalog  Catalog
	Recorder events.EventRecorder
	Logs     *runlog.Book
	Metrics  *Metrics
	// Now is the clock; time.Now by default.
	Now func() time.Time

	calls *runner.Runner[called]
}

// workers is how many HookRuns are looked at in parallel; a pass blocks on
// nothing but the API server.
const workers = 4

// SetupWithManager registers the controller and its background calls.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Catalog == nil || r.Recorder == nil || r.Logs == nil || r.Metrics == nil {
		return errors.New("hookrun: a required field of the Reconciler is missing")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	woken := make(chan event.GenericEvent, 256)
	r.calls = runner.New[called](func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.HookRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	})
	if err := mgr.Add(r.calls); err != nil {
		return fmt.Errorf("adding the background calls: %w", err)
	}
	onlyDeleted := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("hookrun").
		For(&v1alpha1.HookRun{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.runsOf), onlyDeleted).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(r.runsOf), onlyDeleted).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.runsOf), onlyDeleted).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile moves one HookRun on: it observes the call that runs, decides,
// writes the status once, and acts only when that write went through.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var run v1alpha1.HookRun
	if err := r.Client.Get(ctx, req.NamespacedName, &run); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if run.Status.CompletionTimestamp != nil {
		return r.conclude(ctx, &run)
	}
	ended, known := r.calls.State(callID(&run))
	if !known {
		if stays, after, err := r.stays(ctx, &run); stays || err != nil {
			return ctrl.Result{RequeueAfter: after}, err
		}
	}
	before := run.DeepCopy()
	if ended != nil && ended.Err != nil && executor.KindOf(ended.Err) == "" {
		ctrl.LoggerFrom(ctx).Error(ended.Err, "The call of an action failed inside the operator", "attempt", run.Status.Attempt)
	}
	next := decide(&run, r.observe(&run, ended, known), r.Now())
	if current, err := r.write(ctx, before, &run, next); !current || err != nil {
		return ctrl.Result{}, err // the watch brings what was newer
	}
	if ended != nil {
		r.calls.Forget(callID(before))
	}
	if run.Status.Removing {
		return r.startRemoving(&run, r.ranBy(&run, ended)), nil //nolint:contextcheck // it outlives the reconcile that starts it; the runner gives it its context
	}
	return r.act(&run, next) //nolint:contextcheck // a call outlives the reconcile that starts it; the runner gives it its context
}

// write writes what changed in the status, and says whether the run is as the API server
// has it: nothing may be done for an older one.
func (r *Reconciler) write(ctx context.Context, before, run *v1alpha1.HookRun, next step) (current bool, err error) {
	if equality.Semantic.DeepEqual(before.Status, run.Status) {
		if next.call || next.clear {
			return r.isCurrent(ctx, run)
		}
		return true, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, run, patch); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("writing the status of HookRun %s: %w", run.Name, err)
	}
	r.Metrics.record(before, run)
	r.tell(ctx, before, run)
	return true, nil
}

// isCurrent says whether nobody changed the run since the cache saw it. An attempt that is
// taken over is called without a write, which would fail if the run moved on: it may
// have ended, and what answered for it is removed, so that it would be started anew.
func (r *Reconciler) isCurrent(ctx context.Context, run *v1alpha1.HookRun) (bool, error) {
	var live v1alpha1.HookRun
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run), &live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading HookRun %s: %w", run.Name, err)
	}
	return live.UID == run.UID && live.ResourceVersion == run.ResourceVersion, nil
}

// stays says whether a run of which no call is known is left as it is: because it
// was let go of, or until its plugin is there.
func (r *Reconciler) stays(ctx context.Context, run *v1alpha1.HookRun) (stays bool, after time.Duration, err error) {
	if !run.DeletionTimestamp.IsZero() {
		if orphan, after, err := r.releaseOrphan(ctx, run); orphan || err != nil {
			return true, after, err
		}
	}
	return r.awaitPlugin(ctx, run)
}

// callID names one attempt, so that the call of an earlier one is never taken
// for it.
func callID(run *v1alpha1.HookRun) string {
	return fmt.Sprintf("%s/%d", run.UID, run.Status.Attempt)
}

var errCancelled = errors.New("the HookRun was cancelled")

func (r *Reconciler) act(run *v1alpha1.HookRun, next step) (ctrl.Result, error) {
	if next.cancel {
		r.calls.Cancel(callID(run), errCancelled)
	}
	if !next.call && !next.clear {
		return ctrl.Result{RequeueAfter: next.after}, nil
	}
	frozen, do := run.DeepCopy(), r.start
	switch {
	case next.clear:
		do = r.clear
	case next.follows:
		do = r.call
	}
	started := r.calls.Ensure(callID(run), client.ObjectKeyFromObject(run), func(ctx context.Context) (called, error) {
		began := r.Now()
		answer, err := do(ctx, frozen)
		answer.took = r.Now().Sub(began)
		return answer, err
	})
	if !started {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: next.after}, nil
}

// runsOf wakes the runs of a subject that is gone.
func (r *Reconciler) runsOf(ctx context.Context, subject client.Object) []reconcile.Request {
	var runs v1alpha1.HookRunList
	err := r.Client.List(ctx, &runs, client.InNamespace(subject.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(subject.GetUID())})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the HookRuns of a subject that is gone", "subject", subject.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range runs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&runs.Items[i])})
	}
	return requests
}

// tell emits an event when a run started, ended, or has to be repeated.
func (r *Reconciler) tell(ctx context.Context, before, run *v1alpha1.HookRun) {
	if run.Status.Phase == before.Status.Phase && run.Status.Message == before.Status.Message {
		return
	}
	level, reason := corev1.EventTypeNormal, string(run.Status.Phase)
	for _, c := range run.Status.Conditions {
		if c.Type == v1alpha1.ConditionSucceeded {
			reason = c.Reason
		}
	}
	switch reason {
	case v1alpha1.ReasonPending:
		return
	case v1alpha1.ReasonRunning, v1alpha1.ReasonCompleted, v1alpha1.ReasonNotNeeded, v1alpha1.ReasonCalledAgainLater:
	default:
		level = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(run, nil, level, reason, string(run.Spec.Hook), "%s", run.Status.Message)
	log.FromContext(ctx).Info(run.Status.Message, "hook", run.Spec.Hook, "action", run.Spec.PluginName,
		"for", run.Spec.Subject.Name, "phase", run.Status.Phase, "reason", reason)
}
