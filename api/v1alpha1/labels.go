// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels, annotations and finalizers that Grapnel sets or reads. All of them
// are below grapnel.dev/, except the keys of plugins (see SkipValue).
const (
	// LabelBackupName is on every object that belongs to a Backup. Names longer
	// than 63 characters are shortened and hashed.
	LabelBackupName = "grapnel.dev/backup-name"

	// LabelRestoreName is on every object that belongs to a Restore. Names longer
	// than 63 characters are shortened and hashed.
	LabelRestoreName = "grapnel.dev/restore-name"

	// LabelDeletionRunName is on every object that belongs to a DeletionRun. Names longer
	// than 63 characters are shortened and hashed.
	LabelDeletionRunName = "grapnel.dev/deletion-run-name"

	// LabelParentUID is the UID of the run that a HookRun belongs to. A HookRun is
	// adopted only if it matches.
	LabelParentUID = "grapnel.dev/parent-uid"

	// LabelHook is the point at which a HookRun runs, for example PreBackup.
	LabelHook = "grapnel.dev/hook"

	// LabelScheduleName is on Backups that a Schedule created.
	LabelScheduleName = "grapnel.dev/schedule-name"

	// AnnotationScheduledTime is the time for which a Schedule created a Backup, in
	// RFC 3339 format.
	AnnotationScheduledTime = "grapnel.dev/scheduled-time"

	// AnnotationRunRequestedAt requests a Backup from a Schedule now. Its value is the current time
	// in RFC 3339 format; each new value requests one Backup. On that Backup, it is the
	// request that it was created for.
	AnnotationRunRequestedAt = "grapnel.dev/run-requested-at"

	// FinalizerStoredData holds a deleted Backup until its stored data is destroyed, or until
	// it is known that the data stays.
	FinalizerStoredData = "grapnel.dev/stored-data"

	// AnnotationAbandonData abandons stored data that can never be destroyed, because its
	// location no longer exists or cannot be written. With the value "true" on a Backup or
	// DeletionRun, the objects are removed and the data stays, with a warning.
	AnnotationAbandonData = "grapnel.dev/abandon-data"

	// AnnotationDeletedBy is on a Backup that is being destroyed. Its value is the UID of
	// the DeletionRun that destroys it.
	AnnotationDeletedBy = "grapnel.dev/deleted-by"

	// AnnotationImportedBy is on Backups that the operator imported on its own, with the
	// value "sync". They make way for newer ones when a location has more backups than it
	// may import. Backups that a person imports lack the annotation, and stay.
	AnnotationImportedBy = "grapnel.dev/imported-by"

	// AnnotationAbridged is on imported Backups whose manifest is larger than an object may
	// be. It lists what was left out, with its size. The manifest in the location is complete.
	AnnotationAbridged = "grapnel.dev/abridged"

	// AnnotationAllowMassExpiryUntil is set by a person on a BackupStorageLocation: until that
	// time, in RFC 3339 format, more than half of its Backups may expire at once.
	AnnotationAllowMassExpiryUntil = "grapnel.dev/allow-mass-expiry-until"

	// FinalizerRun holds a run until it is finished and owes no clean-up.
	FinalizerRun = "grapnel.dev/run"

	// FinalizerHookRun holds a HookRun until its result is recorded in its
	// parent, even while the namespace is being deleted.
	FinalizerHookRun = "grapnel.dev/hook-run"

	// FinalizerAsyncOperation holds an AsyncOperation until its operation has ended: the
	// operation of a deleted AsyncOperation is canceled first.
	FinalizerAsyncOperation = "grapnel.dev/async-operation"

	// FinalizerPlugin holds a Plugin while a HookRun, or a run that calls its item actions,
	// may still need it.
	FinalizerPlugin = "grapnel.dev/in-use"

	// AnnotationAbandonCleanup abandons owed clean-up that can never run again. With
	// the value "true" on a run, the clean-up that it still owes is given up, with a
	// warning. On a Plugin it releases the Plugin although clean-up needs it.
	AnnotationAbandonCleanup = "grapnel.dev/abandon-cleanup"

	// AnnotationAllowUnverified is for a backup of Grapnel whose manifest is lost. With the
	// value "true" on a Restore, its archive is restored although nothing proves that it is
	// the archive that was stored. The Restore warns.
	AnnotationAllowUnverified = "grapnel.dev/allow-unverified-archive"

	// SkipValue is the only value a skip annotation may have. Its key is
	// <plugin>/prebackup for a plugin name without a slash, and
	// <domain>/<plugin>.prebackup for a name with one.
	SkipValue = "skip"
)
