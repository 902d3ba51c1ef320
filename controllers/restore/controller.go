// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// Reconciler moves Restores through their life. Every field without a default is
// required.
type Reconciler struct {
	run.Environment
	Job     *job.Job
	Actions Actions
	// MaxConcurrent is how many Restores may run at a time; 1 by default: two at a
	// time would compete for the same objects.
	MaxConcurrent int
	// UseVersions chooses API versions (EnableAPIGroupVersions).
	UseVersions bool

	driver  *run.Driver[*v1alpha1.Restore]
	metrics *metrics
}

// scope is one pass over one Restore.
type scope = run.Scope[*v1alpha1.Restore]

// The steps of a run that take time. The runner carries them out.
const (
	stepFind     = "find"
	stepRestore  = "restore"
	stepFinalize = "finalize"
	stepAbandon  = "abandon"
)

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) (err error) {
	if r.Job == nil || r.Actions == nil || r.Metrics == nil {
		return errors.New("restore: a required field of the Reconciler is missing")
	}
	if r.metrics, err = newMetrics(r.Metrics); err != nil {
		return err
	}
	r.driver = &run.Driver[*v1alpha1.Restore]{
		Environment: r.Environment, Kind: run.Restore, Slots: max(r.MaxConcurrent, 1),
		New:      func() *v1alpha1.Restore { return &v1alpha1.Restore{} },
		NewList:  func() client.ObjectList { return &v1alpha1.RestoreList{} },
		Location: func(o *v1alpha1.Restore) string { return o.Status.StorageLocation },
		Schedule: scheduleOf,
		Steps:    []string{stepFind, stepRestore, stepFinalize, stepAbandon, run.StepPostLog},
		Written:  r.metrics.record,
		Forget:   func(uid types.UID) { r.Job.Forget(string(uid)) },
	}
	r.driver.Phases = []run.Phase[*v1alpha1.Restore]{
		r.driver.Plan(r.plan), r.driver.PreActions, r.restore, r.driver.AwaitOperations, r.conclude, r.abandon, r.driver.PostActions, r.driver.Finish(r.storePostLog, r.name),
	}
	return r.driver.SetupWithManager(mgr)
}
