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
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
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

// Builder makes what runs the actions of Plugins whose program is not next to the operator,
// or that have none. It reads nothing, and the same Plugin always gives the same.
type Builder interface {
	// Build returns declared actions, or an error that says in one line what is wrong.
	Build(plugin *v1alpha1.Plugin) (*catalog.Declared, error)
	// Endpoint returns where the plugin is served.
	Endpoint(plugin *v1alpha1.Plugin) *catalog.EndpointSpec
}

// Reconciler loads Plugins. Client, Catalog, Builder, Recorder and Dir are required.
type Reconciler struct {
	Client   client.Client
	Catalog  Catalog
	Builder  Builder
	Recorder events.EventRecorder
	// Dir is the plugin folder that commands are relative to.
	Dir string
	// Exited receives the names of Plugins whose process ended by itself.
	Exited <-chan string
	// Changed receives the names of Plugins of which the catalog has something new to
	// say, because of another one.
	Changed <-chan string
	// Unwatched turns off the watch on Dir.
	Unwatched bool
	// Settle is how long nothing must change in Dir before Plugins are loaded again;
	// half a second by default.
	Settle time.Duration
	// Retry is the first pause after a failed load, doubled up to 5 minutes; 2
	// seconds by default.
	Retry time.Duration

	loads *runner.Runner[catalog.Info]
	pause *backoff
	// replaced are the Plugins that are to be loaded again: their binary changed, or
	// another Plugin that registers the same.
	replaced names
}

// SetupWithManager registers the controller and its background loads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Client == nil || r.Catalog == nil || r.Builder == nil || r.Recorder == nil || r.Dir == "" {
		return errors.New("plugin: Client, Catalog, Builder, Recorder and Dir are required")
	}
	if r.Retry == 0 {
		r.Retry = 2 * time.Second
	}
	r.pause = newBackoff(r.Retry, 5*time.Minute)
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
	if err := mgr.Add(exits{names: r.Exited, told: r.exited, wake: wake}); err != nil {
		return fmt.Errorf("adding the watch on processes: %w", err)
	}
	again := func(_ context.Context, name string) { r.replaced.add(name) }
	if err := mgr.Add(exits{names: r.Changed, told: again, wake: wake}); err != nil {
		return fmt.Errorf("adding the watch on the catalog: %w", err)
	}
	if !r.Unwatched {
		if err := mgr.Add(&binaries{reconciler: r, wake: wake}); err != nil {
			return fmt.Errorf("adding the watch on the plugin folder: %w", err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("plugin").
		For(&v1alpha1.Plugin{}).
		Watches(&v1alpha1.HookRun{}, handler.EnqueueRequestsFromMapFunc(pluginOfHookRun)).
		Watches(&v1alpha1.AsyncOperation{}, handler.EnqueueRequestsFromMapFunc(pluginOfOperation)).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(pluginsOfRun)).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(pluginsOfRun)).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(pluginsOfRun)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile loads the Plugin and records what came of it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var plugin v1alpha1.Plugin
	if err := r.Client.Get(ctx, req.NamespacedName, &plugin); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.pause.reset(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !plugin.DeletionTimestamp.IsZero() {
		if held, err := r.remove(ctx, &plugin); !held || err != nil {
			return ctrl.Result{}, err
		}
		return r.load(ctx, &plugin) // what needs it has to be able to call it
	}
	if !controllerutil.ContainsFinalizer(&plugin, v1alpha1.FinalizerPlugin) {
		patch := client.MergeFromWithOptions(plugin.DeepCopy(), client.MergeFromWithOptimisticLock{})
		controllerutil.AddFinalizer(&plugin, v1alpha1.FinalizerPlugin)
		if err := r.Client.Patch(ctx, &plugin, patch); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer of Plugin %s: %w", plugin.Name, err)
		}
	}
	return r.load(ctx, &plugin)
}

func loadID(plugin *v1alpha1.Plugin) string {
	return fmt.Sprintf("%s/%d", plugin.UID, plugin.Generation)
}

// load starts a load unless one is known, and records its outcome. What was
// recorded of a failed one is forgotten, so that there is another one when its
// pause is over.
func (r *Reconciler) load(ctx context.Context, plugin *v1alpha1.Plugin) (ctrl.Result, error) {
	id := loadID(plugin)
	outcome, known := r.loads.State(id)
	if known && outcome == nil {
		return ctrl.Result{}, nil
	}
	if r.replaced.take(plugin.Name) { // what was found out is no longer so
		r.pause.reset(plugin.Name)
		r.loads.Forget(id)
		known = false
	}
	busy, known, err := r.awaitOperations(ctx, plugin, outcome, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	if known {
		if err := r.record(ctx, plugin, *outcome); err != nil {
			return ctrl.Result{}, err
		}
		if outcome.Err == nil {
			r.pause.succeeded(plugin.Name, id, outcome.At)
			return ctrl.Result{}, nil
		}
		r.pause.failed(plugin.Name, id)
		r.loads.Forget(id)
	}
	if wait := r.pause.remaining(plugin.Name, id); wait > 0 {
		if err := r.pausing(ctx, plugin); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.loading(ctx, plugin); err != nil {
		return ctrl.Result{}, err
	}
	owner := types.NamespacedName{Name: plugin.Name}
	if !r.loads.Ensure(id, owner, func(ctx context.Context) (catalog.Info, error) {
		spec, err := r.spec(plugin)
		if err != nil {
			return catalog.Info{}, err
		}
		spec.Busy = busy
		return r.Catalog.Load(ctx, spec)
	}) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, nil
}

// awaitOperations says whether the process of a Plugin does work that its end would lose,
// where that matters: before a load, and after one that was postponed because of it. That
// one is forgotten when the work has ended.
func (r *Reconciler) awaitOperations(
	ctx context.Context, plugin *v1alpha1.Plugin, outcome *runner.Outcome[catalog.Info], known bool,
) (busy, stillKnown bool, err error) {
	if known && !outcome.Value.Postponed {
		return false, true, nil
	}
	open, err := r.operating(ctx, plugin.Name)
	if err != nil {
		return false, known, err
	}
	if known && open == 0 {
		r.loads.Forget(loadID(plugin))
		known = false
	}
	return open > 0, known, nil
}

// spec translates a Plugin for the catalog.
func (r *Reconciler) spec(plugin *v1alpha1.Plugin) (spec catalog.Spec, err error) {
	spec = catalog.Spec{
		Name: plugin.Name, UID: string(plugin.UID), Generation: plugin.Generation, Created: plugin.CreationTimestamp.Time,
	}
	switch of := &plugin.Spec.Executor; {
	case of.Process != nil:
		spec.Process = r.process(of.Process)
	case of.GRPC != nil:
		spec.Endpoint = r.Builder.Endpoint(plugin)
	default:
		if spec.Declared, err = r.Builder.Build(plugin); err != nil {
			err = &catalog.LoadError{Reason: string(process.ReasonInvalidSpec), Message: executor.OneLine(err.Error()), Err: err}
		}
	}
	return spec, err
}

func (r *Reconciler) process(of *v1alpha1.ProcessExecutor) catalog.ProcessSpec {
	spec := catalog.ProcessSpec{Path: r.path(of), Args: of.Args, Env: map[string]string{}}
	for _, variable := range of.Env {
		spec.Env[variable.Name] = variable.Value
	}
	if of.StartTimeout != nil {
		spec.StartTimeout = of.StartTimeout.Duration
	}
	return spec
}

// path is where the binary of a plugin is.
func (r *Reconciler) path(of *v1alpha1.ProcessExecutor) string {
	return filepath.Join(r.Dir, filepath.FromSlash(of.Command))
}

// remove unloads a deleted Plugin once nobody needs it any more. Until then it is
// held.
func (r *Reconciler) remove(ctx context.Context, plugin *v1alpha1.Plugin) (held bool, err error) {
	if !controllerutil.ContainsFinalizer(plugin, v1alpha1.FinalizerPlugin) {
		return false, nil
	}
	users, err := r.users(ctx, plugin.Name)
	if err != nil {
		return false, err
	}
	if len(users) > 0 && plugin.Annotations[v1alpha1.AnnotationAbandonCleanup] != "true" {
		return true, r.inUse(ctx, plugin, users)
	}
	r.loads.Cancel(loadID(plugin), errDeleted)
	// It is forgotten before the object is gone, so that one of the same name that
	// follows is not unloaded in its stead; open calls end in their own time.
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

// Why a load is cancelled.
var (
	errDeleted = errors.New("the Plugin was deleted")
	errChanged = errors.New("the Plugin was changed")
)

// exited forgets the last load of a Plugin whose process ended, so that it is
// loaded again: at once, or with back-off if it ends again and again.
func (r *Reconciler) exited(ctx context.Context, name string) {
	var plugin v1alpha1.Plugin
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &plugin); err == nil {
		r.pause.ended(name, loadID(&plugin))
		r.loads.Forget(loadID(&plugin))
	}
}
