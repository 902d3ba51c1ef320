// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
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
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/clock"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/operation"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/tracing"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=asyncoperations,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=asyncoperations/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Actions finds actions of plugins.
type Actions interface {
	pluginclient.OperationResolver
	// LoadAttempted returns a channel that is closed after the first attempt to load the plugin.
	LoadAttempted(pluginObject string) <-chan struct{}
}

// Limits bound what the controller does. Each has a default.
type Limits struct {
	// CallTimeout limits one call of a plugin; 30 s by default. It should be much shorter
	// than the time that operations have to end after a Cancel.
	CallTimeout time.Duration
	// CallsPerPlugin limits the concurrent polls of one Plugin; 8 by default. The same limit
	// applies, separately, to calls of Cancel and to polls of operations whose Cancel was
	// answered.
	CallsPerPlugin int
	// WritesPerSecond limits the rate of status writes that only record progress, and WriteBurst is
	// its burst; 80 and 10 by default. Outcomes, and cancellations after a timeout, are not limited.
	WritesPerSecond float64
	WriteBurst      int
	// TTL is how long a finished operation is kept after its Backup or Restore has finished,
	// too; 1 h by default.
	TTL time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		CallTimeout: cmp.Or(l.CallTimeout, 30*time.Second), CallsPerPlugin: cmp.Or(l.CallsPerPlugin, 8),
		WritesPerSecond: cmp.Or(l.WritesPerSecond, 80), WriteBurst: cmp.Or(l.WriteBurst, 10),
		TTL: cmp.Or(l.TTL, time.Hour),
	}
}

// Reconciler follows AsyncOperations. Every field but Operations, Limits and those from Tracer on is
// required.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Actions  Actions
	Recorder events.EventRecorder
	// Redactor removes secrets from the messages of plugins.
	Redactor *redact.Redactor
	// Logs has the open logs of runs, which get what plugins log in calls for operations.
	Logs    *runlog.Store
	Metrics *Metrics
	// Operations has the default timeout of operations, and the time to end after a Cancel.
	Operations lifecycle.OperationDefaults
	Limits     Limits
	// Tracer exports the operations; nil exports none.
	Tracer *tracing.Tracer
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// ServerTime returns the time of the API server; by default from a request to it.
	ServerTime func(ctx context.Context, namespace string) (time.Time, error)
	// Random returns a number in [0, 1), the jitter of polls. It is called
	// concurrently.
	Random func() float64

	log             logr.Logger
	machine         operation.Machine
	operationClient pluginclient.OperationClient
	calls           *runner.Runner[callResult]
	tracked         trackedOperations
	parents         parents
	// ttls tracks until when finished operations are kept.
	ttls clock.DueTracker[types.NamespacedName]
	// pollSlots, cancelSlots and confirmSlots limit the calls. confirmSlots are for polls of
	// operations whose Cancel the plugin has answered.
	pollSlots, cancelSlots, confirmSlots callSlots
	// optionalWrites limits the rate of status writes, and requiredWrites that of attempts to write
	// what must be written.
	optionalWrites, requiredWrites *rate.Limiter
	// writeSlots has one entry per write in flight.
	writeSlots chan struct{}
}

const (
	// maxConcurrentReconciles is how many operations are reconciled in parallel, and
	// maxConcurrentWrites how many of these may wait for a status write: a slow API server must
	// not delay polls.
	maxConcurrentReconciles, maxConcurrentWrites = 32, 20
	// maxWriteAttempts is how many required writes per second try to get a slot. It is more than an
	// API server completes, and keeps thousands that wait from being reconciled all the time.
	maxWriteAttempts = 2000
)

// SetupWithManager registers the controller and its background calls.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Reader == nil || r.Actions == nil || r.Recorder == nil || r.Redactor == nil || r.Logs == nil || r.Metrics == nil {
		return errors.New("asyncoperation: a required field of the Reconciler is missing")
	}
	woken := make(chan event.GenericEvent, 256)
	r.initializeState(func(owner types.NamespacedName) {
		woken <- event.GenericEvent{Object: &v1alpha1.AsyncOperation{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name},
		}}
	})
	r.log = mgr.GetLogger().WithValues("controller", "asyncoperation")
	if err := mgr.Add(r.calls); err != nil {
		return fmt.Errorf("adding the background calls: %w", err)
	}
	onlyEnded := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return !isFinishedRun(e.ObjectOld) && isFinishedRun(e.ObjectNew) },
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("asyncoperation").
		For(&v1alpha1.AsyncOperation{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.parentToOperations), onlyEnded).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(r.parentToOperations), onlyEnded).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		WithLogConstructor(func(req *reconcile.Request) logr.Logger {
			if req == nil {
				return r.log
			}
			return logr.Discard() // a logger for each of a thousand reconciles a second is expensive: see operationLogger
		}).
		Complete(r)
}

// initializeState sets defaults and internal state. wake is called when a call has ended.
func (r *Reconciler) initializeState(wake func(types.NamespacedName)) {
	r.Limits, r.Operations = r.Limits.withDefaults(), r.Operations.WithDefaults()
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.ServerTime == nil {
		r.ServerTime = (&clock.ServerClock{Client: r.Client, Now: r.Now}).Time
	}
	if r.Random == nil {
		r.Random = rand.Float64
	}
	r.machine = operation.Machine{ConfirmTimeout: r.Operations.CancelTimeout, Jitter: r.Random}
	r.operationClient = pluginclient.OperationClient{Actions: r.Actions, Redactor: r.Redactor, Timeout: r.Limits.CallTimeout}
	r.calls = runner.New[callResult](func(owner types.NamespacedName) {
		r.collectFinishedCalls(owner)
		wake(owner)
	})
	for _, places := range []*callSlots{&r.pollSlots, &r.cancelSlots, &r.confirmSlots} {
		places.perPlugin = r.Limits.CallsPerPlugin
	}
	r.writeSlots = make(chan struct{}, maxConcurrentWrites)
	r.optionalWrites = rate.NewLimiter(rate.Limit(r.Limits.WritesPerSecond), r.Limits.WriteBurst)
	r.requiredWrites = rate.NewLimiter(maxWriteAttempts, maxConcurrentWrites)
}

// operationLogger returns a logger for one operation.
func (r *Reconciler) operationLogger(name types.NamespacedName) logr.Logger {
	return r.log.WithValues("namespace", name.Namespace, "name", name.Name)
}

// Reconcile advances one operation. It logs errors and panics itself, because the controller has a
// discarding logger.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer func() {
		if p := recover(); p != nil {
			r.operationLogger(req.NamespacedName).Error(fmt.Errorf("panic: %v", p), "Observed a panic", "stacktrace", string(debug.Stack()))
			panic(p) // the controller turns it into an error and retries
		}
	}()
	result, err := r.reconcileOperation(ctx, req)
	if err != nil {
		r.operationLogger(req.NamespacedName).Error(err, "Reconciler error")
	}
	return result, err
}

// reconcileOperation observes the results of calls, decides, writes the status if a write is due,
// and starts calls. Polls continue while a write waits for its turn; the Cancel after a timeout waits
// for the write.
func (r *Reconciler) reconcileOperation(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var op v1alpha1.AsyncOperation
	if err := r.Client.Get(ctx, req.NamespacedName, &op); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.ttls.Forget(req.NamespacedName)
			r.untrackOperation(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if op.Ended() {
		r.untrackOperation(req.NamespacedName)
		return r.reconcileFinished(ctx, &op)
	}
	k := r.trackOperation(req.NamespacedName, &op)
	orphaned, err := r.isOrphaned(ctx, k, &op)
	if err != nil {
		return ctrl.Result{}, err
	}
	stored := op.Status
	if k.status != nil {
		op.Status = *k.status
	} else {
		stored = *op.Status.DeepCopy()
	}
	seen := r.observeCalls(k)
	seen.Orphaned = orphaned
	if seen.ServerTime, err = r.readServerTimeIfResumed(ctx, k, &op); err != nil {
		return ctrl.Result{}, err
	}
	step := r.decideStatus(k, &op, seen)
	r.forgetObservedCalls(k, seen)
	var after time.Duration
	if step.Write != operation.NoWrite {
		var written bool
		if written, after, err = r.patchStatus(ctx, k, &op, stored, step.Write); err != nil {
			return ctrl.Result{}, err
		}
		if written {
			step = r.decideStatus(k, &op, operation.Observed{Polling: seen.Polling, Cancelling: seen.Cancelling})
		}
	}
	if op.Ended() {
		return ctrl.Result{RequeueAfter: after}, nil // the watch delivers the written status
	}
	result, err := r.startDueCalls(ctx, k, step)
	return minRequeue(result, after), err
}

// readServerTimeIfResumed returns the time of the API server for an operation that this process
// sees for the first time and that seems to have started in an earlier process. If the operator may
// not create objects, the time is unknown, and the operation gets its whole timeout.
func (r *Reconciler) readServerTimeIfResumed(ctx context.Context, k *trackedOperation, op *v1alpha1.AsyncOperation) (time.Time, error) {
	if k.status != nil || r.Now().Sub(op.CreationTimestamp.Time) < time.Minute {
		return time.Time{}, nil
	}
	now, err := r.ServerTime(ctx, op.Namespace)
	if apierrors.IsForbidden(err) {
		return op.CreationTimestamp.Time, nil
	}
	return now, err
}

// decideStatus advances the status and keeps it in memory.
func (r *Reconciler) decideStatus(k *trackedOperation, op *v1alpha1.AsyncOperation, seen operation.Observed) operation.Decision {
	step := r.machine.Decide(op, &k.memory, seen, r.Now())
	status := op.Status // a pointer into the object would keep all of it in memory
	k.status = &status
	if status.Cancel != nil && status.Cancel.Answer != "" && !k.prioritized {
		k.prioritized = true
		close(k.priority)
	}
	return step
}

// startDueCalls starts the calls that are due.
func (r *Reconciler) startDueCalls(ctx context.Context, k *trackedOperation, step operation.Decision) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: step.RequeueAfter}
	if !step.Poll && !step.Cancel {
		return result, nil
	}
	waiting, after, err := r.requeueUntilPluginLoaded(ctx, k)
	if err != nil {
		return ctrl.Result{}, err
	}
	if waiting {
		return minRequeue(result, after), nil
	}
	if step.Cancel && !r.startCall(k, k.cancelID, r.acquireCancelSlot, r.cancelOperation) || //nolint:contextcheck // a call outlives the reconcile that starts it; the runner gives it its context
		step.Poll && !r.startCall(k, k.pollID, r.acquirePollSlot, r.pollProgress) { //nolint:contextcheck // as above
		return minRequeue(result, time.Second), nil
	}
	return result, nil
}

// minRequeue returns a result that requeues after a time at the latest; 0 changes nothing.
func minRequeue(result ctrl.Result, after time.Duration) ctrl.Result {
	if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result
}
