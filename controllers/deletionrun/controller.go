// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
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

// Actions reaches the delete actions of plugins.
type Actions interface {
	run.Loads
	// DeleteAction returns how to reach an action of a plugin, which need not be loaded
	// yet.
	DeleteAction(pluginObject, action string) caller.Resolve[adapter.DeleteAction]
	// DeleteItemAction is DeleteAction for actions on archived objects.
	DeleteItemAction(pluginObject, action string) caller.Resolve[adapter.DeleteItemAction]
}

// Reconciler moves DeletionRuns through their life. Every field without a default is
// required.
type Reconciler struct {
	run.Environment
	Job     *deletion.Job
	Actions Actions
	// MaxConcurrent is how many backups may be destroyed at a time; 4 by default.
	MaxConcurrent int

	driver *run.Driver[*v1alpha1.DeletionRun]
}

// scope is one pass over one DeletionRun.
type scope = run.Scope[*v1alpha1.DeletionRun]

// The steps of a run that take time. The runner carries them out.
const (
	stepFind   = "find"
	stepSurvey = "survey"
	stepCall   = "call"
	stepRemove = "remove"
)

// defaultTTL is that of the API.
const defaultTTL = 24 * time.Hour

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Job == nil || r.Actions == nil {
		return errors.New("deletionrun: a required field of the Reconciler is missing")
	}
	r.driver = &run.Driver[*v1alpha1.DeletionRun]{
		Environment: r.Environment, Kind: run.Deletion, Slots: r.MaxConcurrent,
		New:      func() *v1alpha1.DeletionRun { return &v1alpha1.DeletionRun{} },
		NewList:  func() client.ObjectList { return &v1alpha1.DeletionRunList{} },
		Location: func(d *v1alpha1.DeletionRun) string { return d.Status.StorageLocation },
		Schedule: func(*v1alpha1.DeletionRun) string { return "" },
		Steps:    []string{stepFind, stepSurvey, stepCall, stepRemove},
		Forget:   func(uid types.UID) { r.Job.Forget(string(uid)) },
		TTL: func(d *v1alpha1.DeletionRun) time.Duration {
			if d.Spec.TTL == nil {
				return defaultTTL
			}
			return d.Spec.TTL.Duration
		},
		Watches: []run.Watch{
			{Object: &v1alpha1.Backup{}, Runs: r.runsOfBackup},
			{Object: &v1alpha1.Restore{}, Runs: r.runsOfRestore},
			{Object: &v1alpha1.DeletionRun{}, Runs: r.siblingsOf},
		},
	}
	r.driver.Phases = []run.Phase[*v1alpha1.DeletionRun]{
		r.driver.Plan(r.plan), r.driver.EachAction, r.destroy, r.remove, r.finish,
	}
	return r.driver.SetupWithManager(mgr)
}
