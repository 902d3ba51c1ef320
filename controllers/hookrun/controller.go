// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/clock"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/tracing"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores;deletionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Catalog finds what runs an action.
type Catalog interface {
	Executor(pluginObject, kind, action string) (executor.Executor, error)
	// ResumableExecutor returns the executor that stops what any action of a plugin started,
	// including actions that the plugin no longer provides. It returns nil if the plugin is not
	// loaded, or if its actions do not continue without the operator.
	ResumableExecutor(pluginObject string) executor.Resumable
	// LoadAttempted returns a channel that is closed after the first attempt to load the plugin.
	LoadAttempted(pluginObject string) <-chan struct{}
}

// Reconciler executes HookRuns. Every field but Now, Fence and Tracer is required.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Catalog  Catalog
	Recorder events.EventRecorder
	Logs     *runlog.Store
	Metrics  *Metrics
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Fence delays calls while the operator may not be the leader; nil delays none.
	Fence *lease.Fence
	// Tracer exports the attempts; nil exports none.
	Tracer *tracing.Tracer

	calls *runner.Runner[callResult]
	// deletedParents has the last state, by UID, of Backups and Restores that were deleted without
	// their finalizer while they owed clean-up.
	deletedParents sync.Map
	// nextCalls tracks when the next call of each HookRun is due.
	nextCalls clock.DueTracker[types.NamespacedName]
}

// maxConcurrentReconciles is how many HookRuns are reconciled in parallel. Reconcile blocks only
// on the API server.
const maxConcurrentReconciles = 4

// minErrorBackoff is the first wait after an error. Many errors disappear immediately.
const minErrorBackoff = 5 * time.Millisecond

// SetupWithManager registers the controller and its background calls.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Catalog == nil || r.Recorder == nil || r.Logs == nil || r.Metrics == nil {
		return errors.New("hookrun: a required field of the Reconciler is missing")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	woken := make(chan event.GenericEvent, 256)
	r.calls = runner.New[callResult](func(owner types.NamespacedName) {
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
	b := ctrl.NewControllerManagedBy(mgr).Named("hookrun").For(&v1alpha1.HookRun{})
	for _, parent := range []client.Object{&v1alpha1.Backup{}, &v1alpha1.Restore{}, &v1alpha1.DeletionRun{}} {
		b.Watches(parent, handler.EnqueueRequestsFromMapFunc(r.parentToHookRuns), onlyDeleted).
			Watches(parent, handler.EnqueueRequestsFromMapFunc(r.finalizedParentToHookRuns), builder.WithPredicates(parentFinalizedPredicate()))
	}
	return b.
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles, RateLimiter: backoff.NewRateLimiter[reconcile.Request](minErrorBackoff)}).
		Complete(r)
}

// Reconcile advances one HookRun. It observes the running call, decides, writes the status once,
// and acts only if that write succeeded.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var run v1alpha1.HookRun
	if err := r.Client.Get(ctx, req.NamespacedName, &run); err != nil {
		r.nextCalls.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if controllerutil.ContainsFinalizer(&run, v1alpha1.FinalizerHookRun) {
		r.exportAttempts(ctx, &run) // an operator that crashed may not have sent all of them
	}
	if run.Status.CompletionTimestamp != nil {
		r.nextCalls.Forget(req.NamespacedName)
		if requested, err := r.shouldHandleRequest(ctx, &run); err != nil {
			return ctrl.Result{}, err
		} else if !requested {
			return r.reconcileFinished(ctx, &run)
		}
		r.calls.Forget(leftoversID(&run))
	}
	return r.advanceHookRun(ctx, &run)
}

// advanceHookRun advances a HookRun that is unfinished, or that has a request of a user to handle.
func (r *Reconciler) advanceHookRun(ctx context.Context, run *v1alpha1.HookRun) (ctrl.Result, error) {
	ended, known := r.calls.LookupOutcome(attemptID(run))
	if ended != nil && ended.Value.superseded {
		// The status in the API server decides how the attempt continues.
		r.calls.Forget(attemptID(run))
		ended, known = nil, false
	}
	if !known {
		if stays, after, err := r.shouldSkip(ctx, run); stays || err != nil {
			return ctrl.Result{RequeueAfter: after}, err
		}
	}
	if err := r.addFinalizerForRetry(ctx, run); err != nil {
		return ctrl.Result{}, ignoreConflictAndNotFound(err) // the watch delivers the newer object
	}
	before := run.DeepCopy()
	if ended != nil && ended.Err != nil && executor.ErrorKindOf(ended.Err) == "" {
		ctrl.LoggerFrom(ctx).Error(ended.Err, "The call of an action failed inside the operator", "attempt", run.Status.Attempt)
	}
	next := decide(run, r.observeAttempt(run, ended, known), r.Now())
	if current, err := r.patchStatus(ctx, before, run, next); !current || err != nil {
		return ctrl.Result{}, err // the watch delivers the newer object
	}
	if ended != nil {
		r.calls.Forget(attemptID(before))
	}
	if run.Status.Removing {
		return r.startLeftoverRemoval(run, r.executorFor(run, ended)), nil //nolint:contextcheck // it outlives the reconcile that starts it; the runner gives it its context
	}
	return r.executeDecision(run, next) //nolint:contextcheck // a call outlives the reconcile that starts it; the runner gives it its context
}

// patchStatus writes the changes of the status. It reports whether run matches the object in the
// API server; the controller must not act on an older one.
func (r *Reconciler) patchStatus(ctx context.Context, before, run *v1alpha1.HookRun, next decision) (current bool, err error) {
	if equality.Semantic.DeepEqual(before.Status, run.Status) {
		if next.command.needsTask() {
			return r.isCachedCopyCurrent(ctx, run)
		}
		return true, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, run, patch); err != nil {
		if ignoreConflictAndNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("writing the status of HookRun %s: %w", run.Name, err)
	}
	r.Metrics.recordStatusUpdate(before, run)
	r.emitIntervention(before, run)
	r.emitEvent(ctx, before, run)
	r.exportAttempts(ctx, run)
	return true, nil
}

// exportAttempts exports the attempts that have ended as children of the stages in which they began. The cache may not
// show those stages yet, so the parent is read past it.
func (r *Reconciler) exportAttempts(ctx context.Context, run *v1alpha1.HookRun) {
	r.Tracer.ExportAttempts(ctx, run, func() []v1alpha1.RunStage {
		parent, err := readParent(ctx, r.Reader, run)
		traced, is := parent.(lifecycle.Object)
		if err != nil || !is {
			return nil
		}
		return traced.Run().Timeline
	})
}

// ignoreConflictAndNotFound drops the error of a write that lost against a newer one, or whose object no
// longer exists.
func ignoreConflictAndNotFound(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isCachedCopyCurrent reports whether the cached HookRun is unchanged in the API server. Resuming
// an attempt involves no write, so a stale copy causes no conflict. The attempt may have finished
// meanwhile, with its resources deleted, and resuming it would start the action again.
func (r *Reconciler) isCachedCopyCurrent(ctx context.Context, run *v1alpha1.HookRun) (bool, error) {
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

// shouldSkip reports whether to leave a HookRun without a known call unchanged. That is the case
// if it was released, is no longer needed, or waits for its plugin to be loaded.
func (r *Reconciler) shouldSkip(ctx context.Context, run *v1alpha1.HookRun) (stays bool, after time.Duration, err error) {
	if !run.DeletionTimestamp.IsZero() || run.Spec.Owed {
		if orphan, after, err := r.releaseOrphan(ctx, run); orphan || err != nil {
			return true, after, err
		}
	}
	if unneeded, after, err := r.deleteIfUnneeded(ctx, run); unneeded || err != nil {
		return true, after, err
	}
	return r.requeueUntilCallable(ctx, run)
}

// attemptID identifies one attempt. The call of an earlier attempt has a different ID.
func attemptID(run *v1alpha1.HookRun) string {
	return fmt.Sprintf("%s/%d", run.UID, run.Status.Attempt)
}

var errHookRunCanceled = errors.New("the HookRun was canceled")

func (r *Reconciler) executeDecision(run *v1alpha1.HookRun, next decision) (ctrl.Result, error) {
	var task func(context.Context, *v1alpha1.HookRun) (callResult, error)
	switch next.command {
	case keepCall:
	case cancelCall:
		r.calls.Cancel(attemptID(run), errHookRunCanceled)
	case startCall:
		task = r.callActionOrFail
	case resumeCall:
		task = r.callAction
	case stopLeftovers:
		task = r.stopLeftovers
	}
	if task == nil {
		return ctrl.Result{RequeueAfter: next.requeueAfter}, nil
	}
	frozen := run.DeepCopy()
	return r.startTask(attemptID(run), run, func(ctx context.Context) (callResult, error) {
		began := r.Now()
		answer, err := task(ctx, frozen)
		answer.duration = r.Now().Sub(began)
		return answer, err
	}), nil
}

// startTask starts a background task, unless one of that ID is known. The HookRun is enqueued when
// the task ends.
func (r *Reconciler) startTask(id string, run *v1alpha1.HookRun, task func(context.Context) (callResult, error)) ctrl.Result {
	if !r.calls.EnsureStarted(id, client.ObjectKeyFromObject(run), task) {
		return ctrl.Result{RequeueAfter: time.Second} // the runner is not running
	}
	return ctrl.Result{}
}

// listHookRuns returns the HookRuns of a parent.
func (r *Reconciler) listHookRuns(ctx context.Context, namespace, parentUID string) ([]v1alpha1.HookRun, error) {
	var list v1alpha1.HookRunList
	err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelParentUID: parentUID})
	if err != nil {
		return nil, fmt.Errorf("listing the HookRuns of a parent: %w", err)
	}
	// Users can change the labels of a HookRun, but not its parent.
	return slices.DeleteFunc(list.Items, func(run v1alpha1.HookRun) bool { return run.Spec.ParentRef.UID != parentUID }), nil
}

// removeFinalizer removes the finalizer of a HookRun that is unchanged since it was read.
func (r *Reconciler) removeFinalizer(ctx context.Context, run *v1alpha1.HookRun) error {
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerHookRun)
	return r.Client.Patch(ctx, run, patch)
}

// parentToHookRuns maps a deleted parent to its HookRuns.
func (r *Reconciler) parentToHookRuns(ctx context.Context, parent client.Object) []reconcile.Request {
	runs, err := r.listHookRuns(ctx, parent.GetNamespace(), string(parent.GetUID()))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the HookRuns of a deleted parent", "parent", parent.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range runs {
		if runs[i].Spec.Owed && runs[i].Status.CompletionTimestamp == nil {
			r.deletedParents.Store(string(parent.GetUID()), parent)
		}
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&runs[i])})
	}
	return requests
}

// emitEvent emits an event when a HookRun starts, finishes, or is retried.
func (r *Reconciler) emitEvent(ctx context.Context, before, run *v1alpha1.HookRun) {
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
	log.FromContext(ctx).Info(run.Status.Message, "hook", run.Spec.Hook, "action", run.Spec.ActionName,
		"for", run.Spec.ParentRef.Name, "phase", run.Status.Phase, "reason", reason)
}
