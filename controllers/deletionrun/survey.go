// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// reconcilePlan determines what to destroy, waits until the backup is not in use and it is the
// turn of this DeletionRun, and records the plan. The claim comes last, because it makes
// Restores fail: a waiting DeletionRun must not do that.
func (r *Reconciler) reconcilePlan(ctx context.Context, s *scope) (bool, error) {
	if needed, done, err := r.driver.ObservePlan(ctx, s); !needed || err != nil {
		return done, err
	}
	plugins, err := r.driver.ListPlugins(ctx, r.Client)
	if err != nil {
		return false, err
	}
	b, err := r.resolveBackup(ctx, s)
	if err != nil || b == nil {
		return lifecycle.IsFinished(s.Object), err
	}
	if ready, err := r.awaitPrerequisites(ctx, s, b, plugins); !ready || err != nil {
		r.driver.ReleaseSlot(s)
		return false, err
	}
	if !r.driver.AcquireSlot(s) {
		r.driver.MarkWaitingForSlot(s)
		return false, nil
	}
	if kept, err := r.endIfProtected(ctx, s, b); kept || err != nil {
		return kept, err
	}
	if ready, err := r.annotateDeletedBy(ctx, s, b); !ready || err != nil {
		return false, err
	}
	return r.beginRun(ctx, s, b)
}

// awaitPrerequisites waits for everything that has to end or to exist before the backup is
// changed.
func (r *Reconciler) awaitPrerequisites(ctx context.Context, s *scope, b *v1alpha1.Backup, plugins []v1alpha1.Plugin) (ready bool, err error) {
	if ready, err := r.awaitOlderSibling(ctx, s, b); !ready || err != nil {
		return false, err
	}
	if !r.cancelAndAwaitBackup(s, b) {
		return false, nil
	}
	if ready, err := r.awaitLocation(ctx, s, b); !ready || err != nil {
		return false, err
	}
	hooks, loading := buildHookPlan(b, plugins)
	if loading != "" {
		s.MarkWaitingForPlugin(loading)
		return false, nil
	}
	if r.driver.AwaitPlugins(s, hooks) {
		return false, nil
	}
	return r.awaitRestores(ctx, s)
}

// buildHookPlan returns the plan for the deletion of a Backup, with the parameters that the
// Backup has for delete actions.
func buildHookPlan(b *v1alpha1.Backup, plugins []v1alpha1.Plugin) (plan hook.Plan, loading string) {
	parameters := map[string]v1alpha1.ParameterSet{}
	for i := range plugins {
		if plugins[i].Spec.Suspend || !plugins[i].DeletionTimestamp.IsZero() {
			continue // the plan has none of its actions
		}
		for _, action := range plugins[i].Status.Actions {
			if set, told := b.Spec.Parameters[action.Name]; told && (action.Kind == v1alpha1.ActionKindDelete || action.Kind == v1alpha1.ActionKindDeleteItem) {
				parameters[action.Name] = set
			}
		}
	}
	return lifecycle.DeletionRunKind.BuildHookPlanFor(b.StoredLabels(), nil, parameters, plugins)
}

// surveyResult is the result of stepSurvey.
type surveyResult struct {
	stored  deletion.StoredBackup
	hooks   hook.Plan
	loading string
	// hasRestores reports whether the backup has Restores. activeRestores are the names of those that
	// read it.
	hasRestores    bool
	activeRestores []string
	// uncallableActions are messages about actions that will not be called.
	uncallableActions []string
}

// beginRun inspects the stored backup, asks DeleteActions whether they apply to the Backup, and
// records the plan.
func (r *Reconciler) beginRun(ctx context.Context, s *scope, b *v1alpha1.Backup) (bool, error) {
	surveyed := r.runSurvey(ctx, s, b)
	switch {
	case surveyed == nil:
		if r.driver.StepRunningTime(s, stepSurvey) < surveyPatience {
			s.RequeueAfter(surveyPatience)
		} else {
			s.MarkWaiting(v1alpha1.ReasonValidating, "Finding out what has to be removed")
		}
		return false, nil
	case surveyed.Err != nil:
		s.MarkWaiting(v1alpha1.ReasonWaitingForLocation, "Inspecting the stored backup failed: "+r.Redactor.String(surveyed.Err.Error())+"; "+abandonHint(s.Object))
		r.driver.RetryForever(s, stepSurvey)
		r.driver.ReleaseSlot(s)
		return false, nil //nolint:nilerr // the step is retried
	case len(surveyed.Value.activeRestores) > 0:
		markWaitingForRestores(s, surveyed.Value.activeRestores)
		r.driver.RetryForever(s, stepSurvey) // meanwhile, the cache gets them
		r.driver.ReleaseSlot(s)
		return false, nil
	case surveyed.Value.loading != "":
		r.driver.ResetStep(s, stepSurvey)
		s.MarkWaitingForPlugin(surveyed.Value.loading)
		s.RequeueAfter(time.Second) // until the cache has what was read directly
		return false, nil
	case r.driver.AwaitPlugins(s, surveyed.Value.hooks):
		r.driver.ResetStep(s, stepSurvey)
		s.RequeueAfter(time.Second)
		return false, nil
	}
	return r.recordPlan(ctx, s, b, surveyed.Value)
}

// surveyPatience is how long a survey runs before the status says so. Usually, it ends sooner.
const surveyPatience = time.Second

// recordPlan records the plan, together with what the survey found.
func (r *Reconciler) recordPlan(ctx context.Context, s *scope, b *v1alpha1.Backup, found surveyResult) (bool, error) {
	if s.Object.Status.StoredUID == "" && found.stored.Exists {
		// A user who requests the import of a backup need not provide its UID.
		s.Object.Status.StoredUID = found.stored.CreatorUID()
		if !r.checkCreatedHere(ctx, s, b.Name, s.Object.Status.StoredUID) {
			return lifecycle.IsFinished(s.Object), nil
		}
	}
	// The name may belong to another backup now. What was created for that one must not be
	// removed.
	uid := s.Object.Status.StoredUID
	if grapnel := found.stored.GrapnelManifest; grapnel != nil && (uid == "" || uid == grapnel.BackupUID) {
		outputs, problem := lifecycle.StoredOutputs(grapnel.Outputs)
		if problem != nil {
			found.hooks.Warnings = append(found.hooks.Warnings, problem.Error())
		}
		s.Object.Status.BackupOutputs = outputs
	}
	s.Object.Status.LeftBehind = deletion.AppendLeftovers(s.Object.Status.LeftBehind, found.uncallableActions...)
	return true, r.driver.RecordPlan(ctx, s, found.hooks)
}

// runSurvey starts the survey. The location is open meanwhile, unless nothing is stored there.
func (r *Reconciler) runSurvey(ctx context.Context, s *scope, b *v1alpha1.Backup) *lifecycle.Result[surveyResult] {
	name, d := b.StoredName(), s.Object
	if s.Object.Status.StorageLocation == "" || isDataAbandoned(s.Object, b) {
		return lifecycle.ExecuteStep(r.driver, s, stepSurvey, func() (func(context.Context) (surveyResult, error), error) {
			return func(ctx context.Context) (surveyResult, error) {
				return r.planDeleteActions(ctx, d, b)
			}, nil
		})
	}
	from := r.newBackupSource(ctx, s.Object)
	return lifecycle.ExecuteStepWithStore(r.driver, s, stepSurvey, func(*scope) (string, error) { return name, nil },
		func(ctx context.Context, store *storage.Store, name string) (surveyResult, error) {
			stored, err := r.Runner.Inspect(ctx, store, name)
			if err != nil {
				return surveyResult{}, err
			}
			found, err := r.planDeleteActions(ctx, d, completeFromManifest(b, from, stored))
			found.stored = stored
			return found, err
		})
}

// planDeleteActions builds the plan from the Plugins in the API server. It omits DeleteActions
// that do not apply to the Backup. An action that cannot be called stops nothing. There is no plan
// while Restores read the backup.
func (r *Reconciler) planDeleteActions(ctx context.Context, d *v1alpha1.DeletionRun, b *v1alpha1.Backup) (surveyResult, error) {
	var plugins []v1alpha1.Plugin
	var restores []v1alpha1.Restore
	// The API server answers a LIST of a kind without writes up to 100 ms later.
	group, listing := errgroup.WithContext(ctx)
	group.Go(func() (err error) { plugins, err = r.driver.ListPlugins(listing, r.Reader); return err })
	group.Go(func() (err error) { restores, err = listRestores(listing, r.Reader, d); return err })
	if err := group.Wait(); err != nil {
		return surveyResult{}, err
	}
	hooks, loading := buildHookPlan(b, plugins)
	if active := namesOfActiveRestores(restores); len(active) > 0 || loading != "" {
		return surveyResult{activeRestores: active, loading: loading}, nil
	}
	run := logRun(d)
	found := surveyResult{hooks: hooks, hasRestores: len(restores) > 0}
	for _, problem := range hooks.Errors {
		found.uncallableActions = append(found.uncallableActions, problem+"; the deletion continues without it: delete by hand what it would have deleted")
	}
	found.hooks.Pre = nil
	for _, step := range hooks.Pre {
		concerned, err := r.isSelectedByAction(ctx, run, b, step)
		switch {
		case err != nil && ctx.Err() != nil:
			return surveyResult{}, context.Cause(ctx)
		case err != nil:
			found.uncallableActions = append(found.uncallableActions, fmt.Sprintf("what DeleteAction %s of Plugin %s removes: the action could not report whether it applies to the backup: %v",
				step.Name, step.Plugin, err))
		case concerned:
			found.hooks.Pre = append(found.hooks.Pre, step)
		}
	}
	return found, nil
}

// selectorBackoff is the back-off between requests for the selector of an action.
func selectorBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 4, Jitter: 0.1, Steps: 3}
}

// logRun identifies the log of a DeletionRun.
func logRun(d *v1alpha1.DeletionRun) runlog.Run {
	return runlog.Run{UID: string(d.UID), Kind: "DeletionRun", Namespace: d.Namespace, Name: d.Name}
}

// isSelectedByAction requests the selector of a DeleteAction, and reports whether it matches a
// Backup.
func (r *Reconciler) isSelectedByAction(ctx context.Context, run runlog.Run, b *v1alpha1.Backup, step hook.PlannedAction) (bool, error) {
	loads := []v1alpha1.PlannedItemAction{{Plugin: step.Plugin}}
	if err := lifecycle.WaitForPlugins(ctx, r.Client, r.Actions, loads); err != nil {
		return false, err
	}
	log := r.Logs.Logger(run, runlog.Main).WithValues("plugin", step.Plugin, "action", step.Name)
	question := pluginclient.SelectorRequest{Action: step.Name, Key: run.UID, Parameters: step.Parameters}
	var selector labels.Selector
	var asked error
	waited := wait.ExponentialBackoffWithContext(ctx, selectorBackoff(), func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, min(step.Timeout, pluginclient.MaxSelectorTimeout))
		defer cancel()
		selector, asked = pluginclient.RequestSelector(logr.NewContext(ctx, log), r.Actions.DeleteAction(step.Plugin, step.Name), r.Redactor, question)
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
