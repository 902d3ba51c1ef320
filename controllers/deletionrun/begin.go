// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/deletable"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// plan finds out what is to be destroyed, waits until nobody uses it and it is the turn of
// this DeletionRun, and records what will run. The claim comes last, as it keeps Restores
// away: what only waits must not.
func (r *Reconciler) plan(ctx context.Context, s *scope, plugins []v1alpha1.Plugin) (bool, error) {
	b, err := r.find(ctx, s)
	if err != nil || b == nil {
		return run.Decided(s.Object), err
	}
	if ready, err := r.await(ctx, s, b, plugins); !ready || err != nil {
		r.driver.Release(s)
		return false, err
	}
	if !r.driver.Acquire(s) {
		r.driver.AwaitSlot(s)
		return false, nil
	}
	if ready, err := r.claim(ctx, s, b); !ready || err != nil {
		return false, err // the next pass looks once more for Restores
	}
	if kept, err := r.keep(ctx, s, b); kept || err != nil {
		return kept, err
	}
	return r.begin(ctx, s, b)
}

// await waits for everything that has to end, or to be there, before the backup is touched.
func (r *Reconciler) await(ctx context.Context, s *scope, b *v1alpha1.Backup, plugins []v1alpha1.Plugin) (ready bool, err error) {
	if ready, err := r.awaitOlder(ctx, s, b); !ready || err != nil {
		return false, err
	}
	if !r.awaitBackup(s, b) {
		return false, nil
	}
	if ready, err := r.awaitRestores(ctx, s); !ready || err != nil {
		return false, err
	}
	if ready, err := r.awaitLocation(ctx, s, b); !ready || err != nil {
		return false, err
	}
	_, loading := hooksOf(b, plugins)
	if loading != "" {
		s.AwaitPlugin(loading)
	}
	return loading == "", nil
}

// hooksOf makes the plan of the deletion of a Backup, with the parameters that it has for
// delete actions.
func hooksOf(b *v1alpha1.Backup, plugins []v1alpha1.Plugin) (plan hook.Plan, loading string) {
	parameters := map[string]v1alpha1.ParameterSet{}
	for i := range plugins {
		for _, action := range plugins[i].Status.Actions {
			if set, told := b.Spec.Parameters[action.Name]; told && (action.Kind == v1alpha1.ActionKindDelete || action.Kind == v1alpha1.ActionKindDeleteItem) {
				parameters[action.Name] = set
			}
		}
	}
	return run.Deletion.HooksFor(b.StoredLabels(), nil, parameters, plugins)
}

// survey is what was found out before the plan.
type survey struct {
	stored  deletion.Found
	hooks   hook.Plan
	loading string
	// left says which actions can not be called.
	left []string
}

// begin looks into the store, asks DeleteActions which of them the Backup concerns, and
// records the plan.
func (r *Reconciler) begin(ctx context.Context, s *scope, b *v1alpha1.Backup) (bool, error) {
	s.Waiting(v1alpha1.ReasonValidating, "Looking what there is to remove")
	surveyed := r.surveyed(s, b)
	switch {
	case surveyed == nil:
		return false, nil
	case surveyed.Err != nil:
		s.Waiting(v1alpha1.ReasonWaitingForLocation, "Looking at the stored backup failed: "+r.Redactor.String(surveyed.Err.Error())+"; "+escape(s.Object))
		r.driver.Retry(s, stepSurvey)
		r.driver.Release(s)
		return false, nil //nolint:nilerr // the step is carried out again
	case surveyed.Value.loading != "":
		r.driver.Restart(s, stepSurvey)
		s.AwaitPlugin(surveyed.Value.loading)
		s.Again(time.Second) // until the watch has brought what was read directly
		return false, nil
	}
	return r.record(ctx, s, b, surveyed.Value)
}

// record records the plan.
func (r *Reconciler) record(ctx context.Context, s *scope, b *v1alpha1.Backup, found survey) (bool, error) {
	if s.Object.Status.StoredUID == "" && found.stored.Exists {
		// Who asked for a backup again by hand need not have told its UID.
		s.Object.Status.StoredUID = found.stored.Maker()
		if !r.mayDestroy(ctx, s, b.Name, s.Object.Status.StoredUID) {
			return run.Decided(s.Object), nil
		}
	}
	// What was made for another backup, which has taken the name, is not to be removed.
	uid := s.Object.Status.StoredUID
	if grapnel := found.stored.Grapnel; grapnel != nil && (uid == "" || uid == grapnel.BackupUID) {
		outputs, problem := run.StoredOutputs(grapnel.Outputs)
		if problem != nil {
			found.hooks.Warnings = append(found.hooks.Warnings, problem.Error())
		}
		s.Object.Status.BackupOutputs = outputs
	}
	s.Object.Status.LeftBehind = deletion.AddLeft(s.Object.Status.LeftBehind, found.left...)
	return true, r.driver.Record(ctx, s, found.hooks)
}

// surveyed has the survey made: with the location open, if there is something in it.
func (r *Reconciler) surveyed(s *scope, b *v1alpha1.Backup) *run.Ended[survey] {
	name := b.StoredName()
	if s.Object.Status.StorageLocation == "" || abandoned(s.Object, b) {
		return run.Step(r.driver, s, stepSurvey, func() (func(context.Context) (survey, error), error) {
			return func(ctx context.Context) (survey, error) { return r.survey(ctx, string(s.Object.UID), b) }, nil
		})
	}
	return run.InStore(r.driver, s, stepSurvey, func(*scope) (string, error) { return name, nil },
		func(ctx context.Context, store *backupstore.Store, name string) (survey, error) {
			stored, err := r.Job.Look(ctx, store, name)
			if err != nil {
				return survey{}, err
			}
			found, err := r.survey(ctx, string(s.Object.UID), b)
			found.stored = stored
			return found, err
		})
}

// survey makes the plan of what the API server says now, and leaves out the DeleteActions
// that the Backup does not concern. One that can not be called stops nothing.
func (r *Reconciler) survey(ctx context.Context, key string, b *v1alpha1.Backup) (survey, error) {
	plugins, err := r.driver.Plugins(ctx, r.Reader)
	if err != nil {
		return survey{}, err
	}
	hooks, loading := hooksOf(b, plugins)
	if loading != "" {
		return survey{loading: loading}, nil
	}
	found := survey{hooks: hooks, left: hooks.Errors}
	found.hooks.Pre, found.hooks.Errors = nil, nil
	for _, step := range hooks.Pre {
		concerned, err := r.concerns(ctx, key, b, step)
		switch {
		case err != nil && ctx.Err() != nil:
			return survey{}, context.Cause(ctx)
		case err != nil:
			found.left = append(found.left, fmt.Sprintf("what DeleteAction %s of Plugin %s removes: it could not say whether the backup concerns it: %v",
				step.Name, step.Plugin, err))
		case concerned:
			found.hooks.Pre = append(found.hooks.Pre, step)
		}
	}
	return found, nil
}

// askPauses are those between two tries to ask an action which Backups concern it.
func askPauses() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 4, Jitter: 0.1, Steps: 3}
}

// concerns asks a DeleteAction whether a Backup concerns it.
func (r *Reconciler) concerns(ctx context.Context, key string, b *v1alpha1.Backup, step hook.Step) (bool, error) {
	loads := []v1alpha1.PlannedItemAction{{Plugin: step.Plugin}}
	if err := run.AwaitLoads(ctx, r.Client, r.Actions, loads); err != nil {
		return false, err
	}
	log := r.Logs.Logger(key, runlog.Main).WithValues("plugin", step.Plugin, "action", step.Name)
	question := deletable.Question{Action: step.Name, Key: key, Parameters: step.Parameters}
	var selector labels.Selector
	var asked error
	waited := wait.ExponentialBackoffWithContext(ctx, askPauses(), func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, min(step.Timeout, remote.MaxChooseTimeout))
		defer cancel()
		selector, asked = deletable.Selector(logr.NewContext(ctx, log), r.Actions.DeleteAction(step.Plugin, step.Name), r.Redactor, question)
		return asked == nil, nil
	})
	switch {
	case asked != nil:
		return false, asked
	case waited != nil:
		return false, waited
	}
	return selector.Matches(labels.Set(b.StoredLabels())), nil
}
