// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// Reconciler reconciles Restores. Every field without a default is required.
type Reconciler struct {
	lifecycle.Dependencies
	Runner  *restore.Runner
	Actions ActionResolver
	// MaxConcurrent is how many Restores may be active at a time; 1 by default, because two
	// would compete for the same objects.
	MaxConcurrent int
	// UseVersions enables the choice of API versions (EnableAPIGroupVersions).
	UseVersions bool

	driver  *lifecycle.Driver[*v1alpha1.Restore]
	metrics *metrics
}

// scope is the state of one reconcile pass over one Restore.
type scope = lifecycle.Scope[*v1alpha1.Restore]

// The background steps of a run.
const (
	stepFind     = "find"
	stepVerify   = "verify"
	stepRestore  = "restore"
	stepFinalize = "finalize"
	stepAbandon  = "abandon"
)

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) (err error) {
	if r.Runner == nil || r.Actions == nil || r.Metrics == nil {
		return errors.New("restore: a required field of the Reconciler is missing")
	}
	if r.metrics, err = newMetrics(r.Metrics); err != nil {
		return err
	}
	r.driver = &lifecycle.Driver[*v1alpha1.Restore]{
		Dependencies: r.Dependencies, Kind: lifecycle.RestoreKind, Slots: max(r.MaxConcurrent, 1),
		New:            func() *v1alpha1.Restore { return &v1alpha1.Restore{} },
		NewList:        func() client.ObjectList { return &v1alpha1.RestoreList{} },
		Location:       func(o *v1alpha1.Restore) string { return o.Status.StorageLocation },
		Schedule:       scheduleName,
		StepNames:      []string{stepFind, stepVerify, stepRestore, stepFinalize, stepAbandon, lifecycle.StepPostLog},
		StepTimeouts:   lifecycle.ShortStepTimeouts(stepFind, stepAbandon, lifecycle.StepPostLog),
		OnStatusUpdate: r.metrics.recordStatusUpdate,
		OnForget:       func(uid types.UID) { r.Runner.RemoveLocalFiles(string(uid)) },
	}
	b, err := r.driver.NewControllerManagedBy(mgr)
	if err != nil {
		return err
	}
	return b.Complete(r)
}

// Reconcile advances one Restore as far as possible.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.driver.GetRun(ctx, req.NamespacedName)
	switch {
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case lifecycle.IsFinalized(o):
		if err := lifecycle.ObserveGeneration(ctx, r.Client, o); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.driver.ReconcileFinalized(ctx, o)
	}
	s, err := r.driver.Begin(ctx, o)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	err = s.ReconcileUntilWaiting(ctx,
		r.reconcilePlan,
		r.reconcileVerification,
		r.driver.RunPreActions,
		r.reconcileRestore,
		r.driver.AwaitOperations,
		r.reconcileOutcome,
		r.reconcileUnstoredResults,
		r.driver.RunPostActions,
		r.reconcileFinalization,
	)
	return r.driver.WriteStatus(ctx, s, err)
}
