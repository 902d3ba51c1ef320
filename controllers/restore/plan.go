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
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// reconcilePlan validates the Restore, waits for a slot, reads the manifest of the backup, and
// records the plan. Before that, nothing runs and no clean-up is owed.
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
		return false, err // waiting does not fix an invalid spec
	}
	hooks, loading := lifecycle.RestoreKind.BuildHookPlan(s.Object, plugins)
	if loading != "" {
		s.MarkWaitingForPlugin(loading)
		return false, nil
	}
	_, priorityErrs, err := r.loadVersionPriorities(ctx, s)
	if err != nil {
		return false, err
	}
	_, modifierErrs, err := r.loadResourceModifiers(ctx, s.Object.Namespace, s.Object.Spec.ResourceModifier)
	if err != nil {
		return false, err
	}
	_, changeErrs, err := r.loadConfiguredChanges(ctx, s.Object.Namespace)
	if err != nil {
		return false, err
	}
	invalid = slices.Concat(invalid, problems, priorityErrs, modifierErrs, changeErrs)
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

// manifestInfo is the result of stepFind.
type manifestInfo struct {
	requested storedBackup // what the step looked for
	backup    restore.ManifestInfo
	// namespaces are the namespaces in the backup; see readBackupNamespaces.
	namespaces   backupNamespaces
	otherBackups []string
	plugins      []v1alpha1.Plugin
}

// beginRun reads the manifest and records the plan. The Plugins are read from the API server,
// because the cache may lag: a Plugin that was applied right before the Restore must not be
// missed.
func (r *Reconciler) beginRun(ctx context.Context, s *scope, of storedBackup) (bool, error) {
	s.MarkWaiting(v1alpha1.ReasonValidating, "Looking for the backup in the storage location")
	looked := r.startManifestRead(s, of)
	if looked == nil {
		return false, nil
	}
	problems := r.manifestProblems(of, looked)
	if errors.Is(looked.Err, restore.ErrBackupNotFound) && r.driver.AwaitAdmission(s, v1alpha1.ReasonWaitingForBackup, problems) {
		r.driver.RetryForever(s, stepFind) // the backup may be stored or found soon
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
	hooks, loading := lifecycle.RestoreKind.BuildHookPlan(s.Object, looked.Value.plugins)
	if loading != "" {
		r.driver.ResetStep(s, stepFind)
		s.MarkWaitingForPlugin(loading)
		s.RequeueAfter(time.Second) // until the cache has what was read directly
		return false, nil
	}
	outputs, problem := lifecycle.StoredOutputs(looked.Value.backup.Outputs)
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

// startManifestRead starts reading the manifest of a backup. If another backup becomes the
// newest of its Schedule meanwhile, the step is started again.
func (r *Reconciler) startManifestRead(s *scope, of storedBackup) *lifecycle.Result[manifestInfo] {
	source := r.newBackupSource(s)
	find := func(ctx context.Context, store *storage.Store, of storedBackup) (manifestInfo, error) {
		return r.readManifestAndPlugins(ctx, store, of, source)
	}
	step := func() *lifecycle.Result[manifestInfo] {
		return lifecycle.ExecuteStepWithStore(r.driver, s, stepFind, func(*scope) (storedBackup, error) { return of, nil }, find)
	}
	looked := step()
	if looked == nil || looked.Value.requested == of || looked.Value.requested == (storedBackup{}) { // the zero value is from a location that did not open
		return looked
	}
	r.driver.ResetStep(s, stepFind)
	return step()
}

// manifestProblems returns what a user can do about the answer of the store.
func (r *Reconciler) manifestProblems(of storedBackup, looked *lifecycle.Result[manifestInfo]) []string {
	switch phase, uid := looked.Value.backup.Phase, looked.Value.backup.UID; {
	case looked.Err == nil && of.uid != "" && uid != "" && uid != of.uid:
		return []string{fmt.Sprintf("BackupStorageLocation %s now has another backup named %q: the Backup with the UID %.64q created it, and not %q; "+
			"to restore it, name the Backup with that spec.importedFrom.backupUID; otherwise restore another backup", of.location, of.name, uid, of.uid)}
	case looked.Err == nil && (phase == "" || phase == velero.PhaseCompleted || phase == velero.PhasePartiallyFailed):
		return nil
	case looked.Err == nil: // Velero keeps the manifests of failed backups, too
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s is %s; only a backup that is %s or %s can be restored",
			of.name, of.location, phase, velero.PhaseCompleted, velero.PhasePartiallyFailed)}
	case errors.Is(looked.Err, restore.ErrBackupNotFound):
		return []string{missingBackupMessage(of.name, of.location, looked.Value.otherBackups)}
	case errors.Is(looked.Err, restore.ErrUnverified):
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s cannot be used: %s; restore that file from a copy, or use another backup; "+
			"to restore the backup anyway, create the Restore with the annotation %s=true",
			of.name, of.location, r.Redactor.String(looked.Err.Error()), v1alpha1.AnnotationAllowUnverified)}
	case errors.Is(looked.Err, restore.ErrDamaged):
		return []string{fmt.Sprintf("backup %q in BackupStorageLocation %s cannot be used: %s; restore its files from a copy, or use another backup",
			of.name, of.location, r.Redactor.String(looked.Err.Error()))}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s cannot be used: %s", of.location, r.Redactor.String(looked.Err.Error()))}
}

// isInconclusiveError reports whether an error of the location or the API server leaves unknown
// what is stored.
func isInconclusiveError(err error) bool {
	for _, known := range []error{restore.ErrBackupNotFound, restore.ErrUnverified, restore.ErrDamaged} {
		if errors.Is(err, known) {
			return false
		}
	}
	return err != nil
}

// readManifestAndPlugins reads the stored manifest of the backup, and lists the Plugins.
func (r *Reconciler) readManifestAndPlugins(ctx context.Context, store *storage.Store, of storedBackup, from backupSource) (manifestInfo, error) {
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

// readManifest reads the manifest of the backup, and which namespaces the backup has.
func (r *Reconciler) readManifest(ctx context.Context, store *storage.Store, of storedBackup, origin restore.Origin) (result manifestInfo, err error) {
	result.requested = of
	result.backup, err = r.Runner.ReadManifest(ctx, store, of.name, origin)
	switch {
	case err == nil:
		result.namespaces, err = readBackupNamespaces(ctx, store, of.name)
	case errors.Is(err, restore.ErrBackupNotFound):
		result.otherBackups = listSomeBackups(ctx, store)
	}
	return result, err
}

// listSomeBackups returns the names of a few backups in the store.
func listSomeBackups(ctx context.Context, store *storage.Store) []string {
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

// toDryRunPlan returns the plan of a dry run: no hook runs, and a warning names those that
// would. Item actions stay in the plan: their selectors are requested, and the matching actions
// are named.
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
