// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=backupstoragelocations;plugins;schedules,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// ActionResolver reaches the delete actions of plugins.
type ActionResolver interface {
	lifecycle.PluginLoader
	// DeleteAction returns how to reach an action of a plugin, which need not be loaded yet.
	DeleteAction(pluginObject, action string) pluginclient.ResolveFunc[pluginclient.DeleteAction]
	// DeleteItemAction is DeleteAction for item actions.
	DeleteItemAction(pluginObject, action string) pluginclient.ResolveFunc[pluginclient.DeleteItemAction]
}

// Reconciler reconciles DeletionRuns. Every field without a default is required.
type Reconciler struct {
	lifecycle.Dependencies
	Runner  *deletion.Runner
	Actions ActionResolver
	// MaxConcurrent is how many backups may be destroyed at a time; 4 by default.
	MaxConcurrent int

	driver *lifecycle.Driver[*v1alpha1.DeletionRun]
}

// scope is the state of one reconcile pass over one DeletionRun.
type scope = lifecycle.Scope[*v1alpha1.DeletionRun]

// The background steps of a run.
const (
	stepFind   = "find"
	stepSurvey = "survey"
	stepCall   = "call"
	stepRemove = "remove"
)

func stepNames() []string { return []string{stepFind, stepSurvey, stepCall, stepRemove} }

// The timeouts of steps that call actions of plugins. Each call has a timeout of its own:
// these cover everything else that may hang, such as the scratch directory. A step that
// exceeds its timeout is canceled and retried, and others have the slot meanwhile.
const (
	surveyTimeout = 30 * time.Minute
	callTimeout   = 6 * time.Hour
)

func stepTimeouts() map[string]time.Duration {
	timeouts := lifecycle.ShortStepTimeouts(stepFind, stepRemove)
	timeouts[stepSurvey], timeouts[stepCall] = surveyTimeout, callTimeout
	return timeouts
}

// defaultTTL is the default in the API.
const defaultTTL = 24 * time.Hour

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Runner == nil || r.Actions == nil {
		return errors.New("deletionrun: a required field of the Reconciler is missing")
	}
	r.driver = &lifecycle.Driver[*v1alpha1.DeletionRun]{
		Dependencies: r.Dependencies, Kind: lifecycle.DeletionRunKind, Slots: r.MaxConcurrent,
		New:          func() *v1alpha1.DeletionRun { return &v1alpha1.DeletionRun{} },
		NewList:      func() client.ObjectList { return &v1alpha1.DeletionRunList{} },
		Location:     func(d *v1alpha1.DeletionRun) string { return d.Status.StorageLocation },
		Schedule:     func(*v1alpha1.DeletionRun) string { return "" },
		StepNames:    stepNames(),
		StepTimeouts: stepTimeouts(),
		OnForget:     func(uid types.UID) { r.Runner.RemoveRunLog(string(uid)) },
	}
	b, err := r.driver.NewControllerManagedBy(mgr)
	if err != nil {
		return err
	}
	return b.
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.backupToDeletionRuns)).
		Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(r.restoreToDeletionRuns)).
		Watches(&v1alpha1.DeletionRun{}, handler.EnqueueRequestsFromMapFunc(r.deletionRunToSiblings)).
		Complete(r)
}

// Reconcile advances one DeletionRun as far as possible.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d, err := r.driver.GetRun(ctx, req.NamespacedName)
	switch {
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case lifecycle.IsFinalized(d):
		if err := lifecycle.ObserveGeneration(ctx, r.Client, d); err != nil {
			return ctrl.Result{}, err
		}
		return r.driver.DeleteAfter(ctx, d, timeToLive(d))
	}
	s, err := r.driver.Begin(ctx, d)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	err = s.ReconcileUntilWaiting(ctx,
		r.reconcilePlan,
		r.reconcileDeadline,
		r.driver.RunDeleteActions,
		r.reconcileStoredData,
		r.reconcileObjectDeletion,
		r.reconcileOutcome,
	)
	return r.driver.WriteStatus(ctx, s, err)
}

// timeToLive is how long a finalized DeletionRun is kept.
func timeToLive(d *v1alpha1.DeletionRun) time.Duration {
	if d.Spec.TTL == nil {
		return defaultTTL
	}
	return d.Spec.TTL.Duration
}
