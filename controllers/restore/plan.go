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

// reconcilePlan validates the Restore, waits for a slot, reads the manifest of the backup
// and records what will run. Nothing runs before, and nothing is owed.
func (r *Reconciler) reconcilePlan(ctx context.Context, s *scope) (bool, error) {
	if needed, done, err := r.driver.ObservePlan(ctx, s); !needed || err != nil {
		return done, err
	}
	plugins, err := r.driver.ListPlugins(ctx, r.Client)
	if err != nil {
		return false, err
	}
	invalid := validateSpec(s.Object)
	of, waiting, problems, err := r.resolveBackup(ctx, s)
	if err != nil || waiting && len(invalid) == 0 {
		return false, err // what is invalid does not get better
	}
	hooks, loading := run.RestoreKind.BuildHookPlan(s.Object, plugins)
	if loading != "" {
		s.MarkWaitingForPlugin(loading)
		return false, nil
	}
	_, priorityErrs, err := r.loadVersionPriorities(ctx, s)
	if err != nil {
		return false, err
	}
	invalid = slices.Concat(invalid, problems, priorityErrs)
	if len(invalid) == 0 && r.driver.AwaitPlugins(s, hooks) {
		return false, nil
	}
	if errs := slices.Concat(invalid, hooks.Errors); len(errs) > 0 {
		s.FailValidation(errs, r.Now())
		return true, nil
	}
	if !r.driver.AcquireSlot(s) {
		r.driver.MarkWaitingForSlot(s)
		return false, nil
	}
	return r.beginRun(ctx, s, of)
}

// manifestInfo is what the step of that name found out.
type manifestInfo struct {
	requested storedBackup // what it looked for
	backup    job.ManifestInfo
	// namespaces are those that the backup has; see readBackupNamespaces.
	namespaces   backupNamespaces
	otherBackups []string
	plugins      []v1alpha1.Plugin
}

// beginRun reads the manifest and records the plan. It is made of what the API
// server says now, not of what a watch brought so far: a Plugin that was applied
// right before the Restore must not be left out.
func (r *Reconciler) beginRun(ctx context.Context, s *scope, of storedBackup) (bool, error) {
	s.MarkWaiting(v1alpha1.ReasonValidating, "Looking for the backup in the storage location")
	looked := r.startManifestRead(s, of)
	if looked == nil {
		return false, nil
	}
	problems := r.manifestProblems(of, looked)
	if errors.Is(looked.Err, job.ErrBackupNotFound) && r.driver.AwaitAdmission(s, v1alpha1.ReasonWaitingForBackup, problems) {
		r.driver.RetryForever(s, stepFind) // it may be stored or found soon
		return false, nil
	}
	if isInconclusiveError(looked.Err) && r.driver.AwaitLocationRecovery(s, problems) {
		r.driver.RetryForever(s, stepFind)
		return false, nil
	}
	if len(problems) > 0 {
		s.FailValidation(problems, r.Now())
		return true, nil
	}
	hooks, loading := run.RestoreKind.BuildHookPlan(s.Object, looked.Value.plugins)
	if loading != "" {
		r.driver.ResetStep(s, stepFind)
		s.MarkWaitingForPlugin(loading)
		s.RequeueAfter(time.Second) // until the watch has brought what was read directly
		return false, nil
	}
	outputs, problem := run.StoredOutputs(looked.Value.backup.Outputs)
	if problem != nil {
		hooks.Errors = append(hooks.Errors, problem.Error())
	}
	if r.driver.AwaitPlugins(s, hooks) {
		r.driver.ResetStep(s, stepFind)
		s.RequeueAfter(time.Second)
		return false, nil
	}
	if len(hooks.Errors) > 0 {
		s.FailValidation(hooks.Errors, r.Now())
		return true, nil
	}
	has := looked.Value.namespaces
	s.Object.Status.BackupOutputs, s.Object.Status.BackupNamespaces, s.Object.Status.BackupExcludedNamespaces = outputs, has.included, has.excluded
	if s.Object.Spec.DryRun {
		hooks = toDryRunPlan(hooks)
	}
	return true, r.driver.RecordPlan(ctx, s, hooks)
}

// startManifestRead has the manifest of a backup read. Which one is the newest of a Schedule may change
// meanwhile: then it is read anew.
func (r *Reconciler) startManifestRead(s *scope, of storedBackup) *run.Result[manifestInfo] {
	source := r.newBackupSource(s)
	find := func(ctx context.Context, store *backupstore.Store, of storedBackup) (manifestInfo, error) {
		return r.readManifestAndPlugins(ctx, store, of, source)
	}
	step := func() *run.Result[manifestInfo] {
		return run.ExecuteStepWithStore(r.driver, s, stepFind, func(*scope) (storedBackup, error) { return of, nil }, find)
	}
	looked := step()
	if looked == nil || looked.Value.requested == of || looked.Value.requested == (storedBackup{}) { // that of a location that did not open
		return looked
	}
	r.driver.ResetStep(s, stepFind)
	return step()
}

// manifestProblems says what a person can do about what the store answered.
func (r *Reconciler) manifestProblems(of storedBackup, looked *run.Result[manifestInfo]) []string {
	switch phase, uid := looked.Value.backup.Phase, looked.Value.backup.UID; {
	case looked.Err == nil && of.uid != "" && uid != "" && uid != of.uid:
		return []string{fmt.Sprintf("BackupStorageLocation %s has another backup under the name %q now: the Backup with the UID %.64q made it, and not %q; "+
			"to restore it, name the Backup with that spec.importedFrom.backupUID; otherwise restore another backup", of.location, of.name, uid, of.uid)}
	case looked.Err == nil && (phase == "" || phase == run.PhaseCompleted || phase == run.PhasePartiallyFailed):
		return nil
	case looked.Err == nil: // Velero keeps the manifests of those too
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s is %s; only one that is %s or %s can be restored",
			of.name, of.location, phase, run.PhaseCompleted, run.PhasePartiallyFailed)}
	case errors.Is(looked.Err, job.ErrBackupNotFound):
		return []string{missingBackupMessage(of.name, of.location, looked.Value.otherBackups)}
	case errors.Is(looked.Err, job.ErrUnverified):
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s can not be used: %s; bring back that file from a copy, or restore another backup; "+
			"to restore what is there all the same, create the Restore with the annotation %s=true",
			of.name, of.location, r.Redactor.String(looked.Err.Error()), v1alpha1.AnnotationAllowUnverified)}
	case errors.Is(looked.Err, job.ErrDamaged):
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s can not be used: %s; bring back its files from a copy, or restore another backup",
			of.name, of.location, r.Redactor.String(looked.Err.Error()))}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", of.location, r.Redactor.String(looked.Err.Error()))}
}

// isInconclusiveError reports whether an error of the location or of the API server leaves open what is
// stored.
func isInconclusiveError(err error) bool {
	for _, known := range []error{job.ErrBackupNotFound, job.ErrUnverified, job.ErrDamaged} {
		if errors.Is(err, known) {
			return false
		}
	}
	return err != nil
}

// readManifestAndPlugins reads what is stored about the backup, and the Plugins meanwhile.
func (r *Reconciler) readManifestAndPlugins(ctx context.Context, store *backupstore.Store, of storedBackup, from backupSource) (manifestInfo, error) {
	plugins, err := r.driver.ListPlugins(ctx, r.Reader)
	if err != nil {
		return manifestInfo{requested: of}, err
	}
	origin, err := from.readOrigin(ctx, r.Reader)
	if err != nil {
		return manifestInfo{requested: of}, err
	}
	result, err := r.readManifest(ctx, store, of, origin)
	result.plugins = plugins
	return result, err
}

// readManifest reads the manifest of the backup, and which namespaces it has.
func (r *Reconciler) readManifest(ctx context.Context, store *backupstore.Store, of storedBackup, origin job.Origin) (result manifestInfo, err error) {
	result.requested = of
	result.backup, err = r.Runner.ReadManifest(ctx, store, of.name, origin)
	switch {
	case err == nil:
		result.namespaces, err = readBackupNamespaces(ctx, store, of.name)
	case errors.Is(err, job.ErrBackupNotFound):
		result.otherBackups = listSomeBackups(ctx, store)
	}
	return result, err
}

// listSomeBackups returns a few backups that the store has.
func listSomeBackups(ctx context.Context, store *backupstore.Store) []string {
	const enough = 5
	var names []string
	for name, err := range store.ListNames(ctx) {
		if err != nil || len(names) == enough {
			break
		}
		names = append(names, name)
	}
	return names
}

// toDryRunPlan returns the plan of a dry run: nothing runs, and the plan says what would. Actions
// on objects stay in it: they are asked which objects concern them, and named.
func toDryRunPlan(hooks hook.Plan) hook.Plan {
	names := func(steps []hook.PlannedAction) string {
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
