// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// plan validates the Restore, waits for a slot, reads the manifest of the backup
// and records what will run. Nothing runs before, and nothing is owed.
func (r *Reconciler) plan(ctx context.Context, s *scope, plugins []v1alpha1.Plugin) (bool, error) {
	of, waiting, problems, err := r.findBackup(ctx, s)
	if err != nil || waiting {
		return false, err
	}
	hooks, loading := run.Restore.HooksOf(s.Object, plugins)
	if loading != "" {
		s.AwaitPlugin(loading)
		return false, nil
	}
	_, priorityErrs, err := r.priorities(ctx, s)
	if err != nil {
		return false, err
	}
	if errs := slices.Concat(validate(s.Object), problems, priorityErrs, hooks.Errors); len(errs) > 0 {
		s.Invalid(errs, r.Now())
		return true, nil
	}
	if !r.driver.Acquire(s) {
		r.driver.AwaitSlot(s)
		return false, nil
	}
	return r.begin(ctx, s, of)
}

// found is what the step of that name found out.
type found struct {
	of     stored // what it looked for
	backup job.Found
	// namespaces are those that the backup has; see namespacesOf.
	namespaces reached
	others     []string
	plugins    []v1alpha1.Plugin
}

// begin reads the manifest and records the plan. It is made of what the API
// server says now, not of what a watch brought so far: a Plugin that was applied
// right before the Restore must not be left out.
func (r *Reconciler) begin(ctx context.Context, s *scope, of stored) (bool, error) {
	s.Waiting(v1alpha1.ReasonValidating, "Looking for the backup in the storage location")
	looked := r.look(s, of)
	if looked == nil {
		return false, nil
	}
	if problems := r.lookProblems(of, looked); len(problems) > 0 {
		s.Invalid(problems, r.Now())
		return true, nil
	}
	hooks, loading := run.Restore.HooksOf(s.Object, looked.Value.plugins)
	if loading != "" {
		r.driver.Restart(s, stepFind)
		s.AwaitPlugin(loading)
		s.Again(time.Second) // until the watch has brought what was read directly
		return false, nil
	}
	outputs, problem := run.StoredOutputs(looked.Value.backup.Outputs)
	if problem != nil {
		hooks.Errors = append(hooks.Errors, problem.Error())
	}
	if len(hooks.Errors) > 0 {
		s.Invalid(hooks.Errors, r.Now())
		return true, nil
	}
	has := looked.Value.namespaces
	s.Object.Status.BackupOutputs, s.Object.Status.BackupNamespaces, s.Object.Status.BackupExcludedNamespaces = outputs, has.included, has.excluded
	if s.Object.Spec.DryRun {
		hooks = dry(hooks)
	}
	return true, r.driver.Record(ctx, s, hooks)
}

// look has the manifest of a backup read. Which one is the newest of a Schedule may change
// meanwhile: then it is read anew.
func (r *Reconciler) look(s *scope, of stored) *run.Ended[found] {
	step := func() *run.Ended[found] {
		return run.InStore(r.driver, s, stepFind, func(*scope) (stored, error) { return of, nil }, r.find)
	}
	looked := step()
	if looked == nil || looked.Value.of == of || looked.Value.of == (stored{}) { // that of a location that did not open
		return looked
	}
	r.driver.Restart(s, stepFind)
	return step()
}

// lookProblems says what a person can do about what the store answered.
func (r *Reconciler) lookProblems(of stored, looked *run.Ended[found]) []string {
	switch phase, uid := looked.Value.backup.Phase, looked.Value.backup.UID; {
	case looked.Err == nil && of.uid != "" && uid != "" && uid != of.uid:
		return []string{fmt.Sprintf("BackupStorageLocation %s has another backup under the name %q now: the Backup with the UID %.64q made it, and not %q; "+
			"to restore it, name the Backup with that spec.importedFrom.backupUID; otherwise restore another backup", of.location, of.name, uid, of.uid)}
	case looked.Err == nil && (phase == "" || phase == run.PhaseCompleted || phase == run.PhasePartiallyFailed):
		return nil
	case looked.Err == nil: // Velero keeps the manifests of those too
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s is %s; only one that is %s or %s can be restored",
			of.name, of.location, phase, run.PhaseCompleted, run.PhasePartiallyFailed)}
	case errors.Is(looked.Err, job.ErrNoBackup):
		return []string{missing(of.name, of.location, looked.Value.others)}
	case errors.Is(looked.Err, job.ErrDamaged):
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s can not be used: %s; bring back its files from a copy, or restore another backup",
			of.name, of.location, r.Redactor.String(looked.Err.Error()))}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", of.location, r.Redactor.String(looked.Err.Error()))}
}

// find reads what is stored about the backup, and the Plugins meanwhile.
func (r *Reconciler) find(ctx context.Context, store *backupstore.Store, of stored) (found, error) {
	plugins, err := r.driver.Plugins(ctx, r.Reader)
	if err != nil {
		return found{of: of}, err
	}
	result, err := r.backup(ctx, store, of)
	result.plugins = plugins
	return result, err
}

// backup reads the manifest of the backup, and which namespaces it has.
func (r *Reconciler) backup(ctx context.Context, store *backupstore.Store, of stored) (result found, err error) {
	result.of = of
	result.backup, err = r.Job.Find(ctx, store, of.name)
	switch {
	case err == nil:
		result.namespaces, err = namespacesOf(ctx, store, of.name)
	case errors.Is(err, job.ErrNoBackup):
		result.others = some(ctx, store)
	}
	return result, err
}

// some returns a few backups that the store has.
func some(ctx context.Context, store *backupstore.Store) []string {
	const enough = 5
	var names []string
	for name, err := range store.List(ctx) {
		if err != nil || len(names) == enough {
			break
		}
		names = append(names, name)
	}
	return names
}

// dry returns the plan of a dry run: nothing runs, and the plan says what would. Actions
// on objects stay in it: they are asked which objects concern them, and named.
func dry(hooks hook.Plan) hook.Plan {
	names := func(steps []hook.Step) string {
		var list []string
		for _, step := range steps {
			list = append(list, step.Name)
		}
		if len(list) == 0 {
			return "none"
		}
		return strings.Join(list, ", ")
	}
	warning := fmt.Sprintf("this is a dry run: no action runs; otherwise these would: PreRestore: %s; PostRestore: %s", names(hooks.Pre), names(hooks.Post))
	return hook.Plan{Items: hooks.Items, Warnings: append(hooks.Warnings, warning), Skipped: hooks.Skipped}
}
