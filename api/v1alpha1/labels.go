// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels, annotations and finalizers that Grapnel sets or reads. Everything
// lives under grapnel.dev/, except the keys of plugins (see SkipValue).
const (
	// LabelBackupName is on every object that belongs to a Backup. Names longer
	// than 63 characters are shortened and hashed.
	LabelBackupName = "grapnel.dev/backup-name"

	// LabelRestoreName is on every object that belongs to a Restore. Names longer
	// than 63 characters are shortened and hashed.
	LabelRestoreName = "grapnel.dev/restore-name"

	// LabelParentUID is the UID of the Backup or Restore a HookRun belongs to.
	// A HookRun is adopted only if it matches.
	LabelParentUID = "grapnel.dev/parent-uid"

	// LabelHook is the point a HookRun runs at, for example PreBackup.
	LabelHook = "grapnel.dev/hook"

	// LabelScheduleName is on Backups that a Schedule created.
	LabelScheduleName = "grapnel.dev/schedule-name"

	// FinalizerRun keeps a Backup until it is terminal and owes nothing.
	FinalizerRun = "grapnel.dev/run"

	// FinalizerHookRun keeps a HookRun until its result is recorded in its
	// parent, also while the namespace is being deleted.
	FinalizerHookRun = "grapnel.dev/hook-run"

	// FinalizerAsyncOperation keeps an AsyncOperation until its operation has ended, so
	// that one that is deleted is cancelled.
	FinalizerAsyncOperation = "grapnel.dev/async-operation"

	// FinalizerPlugin keeps a Plugin while a HookRun may still need it.
	FinalizerPlugin = "grapnel.dev/in-use"

	// AnnotationAbandonCleanup is the escape for clean-up that can never run
	// again: with the value "true" on a Backup, what it still owes is given up,
	// loudly. On a Plugin it releases the Plugin although it is owed.
	AnnotationAbandonCleanup = "grapnel.dev/abandon-cleanup"

	// SkipValue is the only value a skip annotation may have. Its key is
	// <plugin>/prebackup for a plugin name without a slash, and
	// <domain>/<plugin>.prebackup for a name with one.
	SkipValue = "skip"
)
