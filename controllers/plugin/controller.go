// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns;asyncoperations;backups;restores;deletionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Catalog loads plugins.
type Catalog interface {
	Load(ctx context.Context, spec catalog.Spec) (catalog.Info, error)
	Unload(ctx context.Context, name string)
}

// Builder builds the executors or the endpoint of Plugins whose program does not run next
// to the operator, or that have none. It reads nothing, and the same Plugin always gives
// the same result.
type Builder interface {
	// Build returns the declared actions, or a one-line error that says what is wrong.
	Build(plugin *v1alpha1.Plugin) (*catalog.DeclaredActions, error)
	// Endpoint returns the endpoint at which the plugin is served.
	Endpoint(plugin *v1alpha1.Plugin) *catalog.EndpointSpec
}

// Reconciler loads Plugins. Client, Catalog, Builder, Recorder and Dir are required.
type Reconciler struct {
	Client   client.Client
	Catalog  Catalog
	Builder  Builder
	Recorder events.EventRecorder
	// Dir is the plugin directory that commands are relative to.
	Dir string
	// ProcessExits receives the names of Plugins whose process ended by itself.
	ProcessExits <-chan string
	// CatalogChanges receives the names of Plugins whose result in the catalog changed
	// because of another Plugin.
	CatalogChanges <-chan string
	// WatchDisabled turns off the watch on Dir.
	WatchDisabled bool
	// DebounceInterval is how long Dir must be unchanged before Plugins are loaded again; half
	// a second by default.
	DebounceInterval time.Duration
	// InitialBackoff is the first back-off after a failed load, doubled up to 5 minutes; 2
	// seconds by default.
	InitialBackoff time.Duration

	loads   *runner.Runner[catalog.Info]
	backoff *loadBackoff
	// reloadRequested are the Plugins to load again because their binary changed, or
	// another Plugin that registers the same actions.
	reloadRequested nameSet
}

// SetupWithManager registers the controller and its background loads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Catalog == nil || r.Builder == nil || r.Recorder == nil || r.Dir == "" {
		return errors.New("plugin: Client, Catalog, Builder, Recorder and Dir are required")
	}
	if r.InitialBackoff == 0 {
		r.InitialBackoff = 2 * time.Second
	}
	r.backoff = newLoadBackoff(r.InitialBackoff, 5*time.Minute)
	woken := make(chan event.GenericEvent, 64)
	wake := func(owner types.NamespacedName) {
		plugin := &v1alpha1.Plugin{}
		plugin.Name = owner.Name
		woken <- event.GenericEvent{Object: plugin}
	}
	r.loads = runner.New[catalog.Info](wake)
	if err := mgr.Add(r.loads); err != nil {
		return fmt.Errorf("adding the background loads: %w", err)
	}
	if err := mgr.Add(nameForwarder{names: r.ProcessExits, handle: r.handleProcessExit, enqueue: wake}); err != nil {
		return fmt.Errorf("adding the watch on processes: %w", err)
	}
	again := func(_ context.Context, name string) { r.reloadRequested.addName(name) }
	if err := mgr.Add(nameForwarder{names: r.CatalogChanges, handle: again, enqueue: wake}); err != nil {
		return fmt.Errorf("adding the watch on the catalog: %w", err)
	}
	if !r.WatchDisabled {
		if err := mgr.Add(&binaryWatcher{reconciler: r, enqueue: wake}); err != nil {
			return fmt.Errorf("adding the watch on the plugin directory: %w", err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("plugin").
		For(&v1alpha1.Plugin{}).
		Watches(&v1alpha1.HookRun{}, handler.EnqueueRequestsFromMapFunc(hookRunToPlugin)).
		Watches(&v1alpha1.AsyncOperation{}, handler.EnqueueRequestsFromMapFunc(operationToPlugin)).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(runToPlugins)).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(runToPlugins)).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(runToPlugins)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile loads the Plugin and records the outcome.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var plugin v1alpha1.Plugin
	if err := r.Client.Get(ctx, req.NamespacedName, &plugin); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.backoff.forgetPlugin(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !plugin.DeletionTimestamp.IsZero() {
		if held, err := r.reconcileDelete(ctx, &plugin); !held || err != nil {
			return ctrl.Result{}, err
		}
		return r.reconcileLoad(ctx, &plugin) // its users must be able to call it
	}
	if !controllerutil.ContainsFinalizer(&plugin, v1alpha1.FinalizerPlugin) {
		patch := client.MergeFromWithOptions(plugin.DeepCopy(), client.MergeFromWithOptimisticLock{})
		controllerutil.AddFinalizer(&plugin, v1alpha1.FinalizerPlugin)
		if err := r.Client.Patch(ctx, &plugin, patch); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer of Plugin %s: %w", plugin.Name, err)
		}
	}
	return r.reconcileLoad(ctx, &plugin)
}

func loadTaskID(plugin *v1alpha1.Plugin) string {
	return fmt.Sprintf("%s/%d", plugin.UID, plugin.Generation)
}

// reconcileLoad starts a load unless there is one, and records its outcome. It forgets a
// failed load, which is then retried after the back-off.
func (r *Reconciler) reconcileLoad(ctx context.Context, plugin *v1alpha1.Plugin) (ctrl.Result, error) {
	id := loadTaskID(plugin)
	outcome, known := r.loads.LookupOutcome(id)
	if known && outcome == nil {
		return ctrl.Result{}, nil
	}
	if r.reloadRequested.takeName(plugin.Name) { // the outcome is outdated
		r.backoff.forgetPlugin(plugin.Name)
		r.loads.Forget(id)
		known = false
	}
	busy, known, err := r.checkOpenOperations(ctx, plugin, outcome, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	if known {
		if err := r.recordOutcome(ctx, plugin, *outcome); err != nil {
			return ctrl.Result{}, err
		}
		if outcome.Err == nil {
			r.backoff.recordSuccess(plugin.Name, id, outcome.At)
			return ctrl.Result{}, nil
		}
		r.backoff.recordFailure(plugin.Name, id)
		r.loads.Forget(id)
	}
	if wait := r.backoff.remainingDelay(plugin.Name, id); wait > 0 {
		if err := r.markCrashLooping(ctx, plugin); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.markLoading(ctx, plugin); err != nil {
		return ctrl.Result{}, err
	}
	owner := types.NamespacedName{Name: plugin.Name}
	if !r.loads.EnsureStarted(id, owner, func(ctx context.Context) (catalog.Info, error) {
		spec, err := r.newCatalogSpec(plugin)
		if err != nil {
			return catalog.Info{}, err
		}
		spec.HasOpenOperations = busy
		return r.Catalog.Load(ctx, spec)
	}) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// checkOpenOperations reports whether the process of a Plugin has open operations, which
// would be lost if it ended. It checks before a load, and after one that was postponed
// because of them. When they have ended, it forgets the postponed load.
func (r *Reconciler) checkOpenOperations(
	ctx context.Context, plugin *v1alpha1.Plugin, outcome *runner.Outcome[catalog.Info], known bool,
) (busy, stillKnown bool, err error) {
	if known && !outcome.Value.ReplacementPostponed {
		return false, true, nil
	}
	open, err := r.countOpenOperations(ctx, plugin.Name)
	if err != nil {
		return false, known, err
	}
	if known && open == 0 {
		r.loads.Forget(loadTaskID(plugin))
		known = false
	}
	return open > 0, known, nil
}

// newCatalogSpec converts a Plugin to a Spec of the catalog.
func (r *Reconciler) newCatalogSpec(plugin *v1alpha1.Plugin) (spec catalog.Spec, err error) {
	spec = catalog.Spec{
		Name: plugin.Name, UID: string(plugin.UID), Generation: plugin.Generation, Created: plugin.CreationTimestamp.Time,
	}
	switch of := &plugin.Spec.Executor; {
	case of.Process != nil:
		spec.Process = r.newProcessSpec(of.Process)
	case of.GRPC != nil:
		spec.Endpoint = r.Builder.Endpoint(plugin)
	default:
		if spec.DeclaredActions, err = r.Builder.Build(plugin); err != nil {
			err = &catalog.LoadError{Reason: string(host.ReasonInvalidSpec), Message: executor.OneLine(err.Error()), Err: err}
		}
	}
	return spec, err
}

func (r *Reconciler) newProcessSpec(of *v1alpha1.ProcessExecutor) catalog.ProcessSpec {
	spec := catalog.ProcessSpec{Path: r.binaryPath(of), Args: of.Args, Env: map[string]string{}}
	for _, variable := range of.Env {
		spec.Env[variable.Name] = variable.Value
	}
	if of.StartTimeout != nil {
		spec.StartTimeout = of.StartTimeout.Duration
	}
	return spec
}

// binaryPath returns the path of the binary of a plugin.
func (r *Reconciler) binaryPath(of *v1alpha1.ProcessExecutor) string {
	return filepath.Join(r.Dir, filepath.FromSlash(of.Command))
}

// reconcileDelete unloads a deleted Plugin once no run needs it any more. Until then the
// finalizer holds the object.
func (r *Reconciler) reconcileDelete(ctx context.Context, plugin *v1alpha1.Plugin) (held bool, err error) {
	if !controllerutil.ContainsFinalizer(plugin, v1alpha1.FinalizerPlugin) {
		return false, nil
	}
	users, err := r.listObjectsUsingPlugin(ctx, plugin.Name)
	if err != nil {
		return false, err
	}
	if len(users) > 0 && plugin.Annotations[v1alpha1.AnnotationAbandonCleanup] != "true" {
		return true, r.markInUse(ctx, plugin, users)
	}
	r.loads.Cancel(loadTaskID(plugin), errPluginDeleted)
	// Unload before the finalizer is removed: otherwise a new Plugin of the same name could
	// be unloaded. Open calls continue until they end.
	noWait, cancel := context.WithCancel(ctx)
	cancel()
	r.Catalog.Unload(noWait, plugin.Name)
	patch := client.MergeFromWithOptions(plugin.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(plugin, v1alpha1.FinalizerPlugin)
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, plugin, patch)); err != nil {
		return false, fmt.Errorf("releasing Plugin %s: %w", plugin.Name, err)
	}
	return false, nil
}

// The reasons why a load is canceled.
var (
	errPluginDeleted = errors.New("the Plugin was deleted")
	errPluginChanged = errors.New("the Plugin was changed")
)

// handleProcessExit forgets the last load of a Plugin whose process ended. The Plugin is
// then loaded again: immediately, or with back-off if it ends repeatedly.
func (r *Reconciler) handleProcessExit(ctx context.Context, name string) {
	var plugin v1alpha1.Plugin
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &plugin); err == nil {
		r.backoff.recordExit(name, loadTaskID(&plugin))
		r.loads.Forget(loadTaskID(&plugin))
	}
}
