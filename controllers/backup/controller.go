// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// Reconciler reconciles Backups. Every field without a default is required.
type Reconciler struct {
	lifecycle.Dependencies
	Runner  *backup.Runner
	Actions ActionResolver
	// MaxConcurrent is how many Backups may be active at a time; 4 by default.
	MaxConcurrent int
	// DefaultTTL is how long a Backup without a ttl is kept; 0 means until it is deleted.
	DefaultTTL time.Duration
	// AllVersions archives every served version of a group.
	AllVersions bool

	driver  *lifecycle.Driver[*v1alpha1.Backup]
	metrics *metrics
}

// scope is the state of one reconcile pass over one Backup.
type scope = lifecycle.Scope[*v1alpha1.Backup]

// The background steps of a run.
const (
	stepCheck    = "check"
	stepClaim    = "claim"
	stepCapture  = "capture"
	stepArchive  = "archive"
	stepFinalize = "finalize"
	stepRelease  = "release"
	stepAbandon  = "abandon"
)

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) (err error) {
	if r.Runner == nil || r.Actions == nil || r.Metrics == nil {
		return errors.New("backup: a required field of the Reconciler is missing")
	}
	if r.metrics, err = newMetrics(r.Metrics); err != nil {
		return err
	}
	r.driver = &lifecycle.Driver[*v1alpha1.Backup]{
		Dependencies: r.Dependencies, Kind: lifecycle.BackupKind, Slots: r.MaxConcurrent,
		New:            func() *v1alpha1.Backup { return &v1alpha1.Backup{} },
		NewList:        func() client.ObjectList { return &v1alpha1.BackupList{} },
		Location:       func(b *v1alpha1.Backup) string { return b.Status.StorageLocation },
		Schedule:       scheduleName,
		StepNames:      []string{stepCheck, stepClaim, stepCapture, stepArchive, stepFinalize, stepRelease, stepAbandon, lifecycle.StepPostLog},
		StepTimeouts:   lifecycle.ShortStepTimeouts(stepCheck, stepClaim, stepRelease, stepAbandon, lifecycle.StepPostLog),
		OnStatusUpdate: r.metrics.recordStatusUpdate,
	}
	b, err := r.driver.NewControllerManagedBy(mgr)
	if err != nil {
		return err
	}
	return b.Complete(r)
}

// Reconcile advances one Backup as far as possible.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b, err := r.driver.GetRun(ctx, req.NamespacedName)
	switch {
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case b.Spec.ImportedFrom != nil: // an entry of the catalog never runs
		return ctrl.Result{}, nil
	case lifecycle.IsFinalized(b):
		return ctrl.Result{}, r.driver.ReconcileFinalized(ctx, b)
	}
	s, err := r.driver.Begin(ctx, b)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	err = s.ReconcileUntilWaiting(ctx,
		r.reconcilePlan,
		r.driver.RunPreActions,
		r.reconcileArchive,
		r.awaitOperations,
		r.reconcileOutcome,
		r.reconcileUncommitted,
		r.driver.RunPostActions,
		r.reconcileFinalization,
	)
	return r.driver.WriteStatus(ctx, s, err)
}
