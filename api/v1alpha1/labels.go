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

	// LabelDeletionRunName is on every object that belongs to a DeletionRun. Names longer
	// than 63 characters are shortened and hashed.
	LabelDeletionRunName = "grapnel.dev/deletion-run-name"

	// LabelParentUID is the UID of the Backup or Restore a HookRun belongs to.
	// A HookRun is adopted only if it matches.
	LabelParentUID = "grapnel.dev/parent-uid"

	// LabelHook is the point a HookRun runs at, for example PreBackup.
	LabelHook = "grapnel.dev/hook"

	// LabelScheduleName is on Backups that a Schedule created.
	LabelScheduleName = "grapnel.dev/schedule-name"

	// AnnotationScheduledTime is the time for which a Schedule created a Backup, as in
	// RFC 3339.
	AnnotationScheduledTime = "grapnel.dev/scheduled-time"

	// FinalizerStoredData keeps a Backup that is deleted until its stored data is
	// destroyed, or until it is remembered that it is to stay.
	FinalizerStoredData = "grapnel.dev/stored-data"

	// AnnotationAbandonData is the escape for stored data that can never be destroyed,
	// because its location is gone or can not be written: with the value "true" on a
	// Backup or DeletionRun, the objects are removed and the data stays, loudly.
	AnnotationAbandonData = "grapnel.dev/abandon-data"

	// AnnotationDeletedBy is on a Backup that is being destroyed: the UID of the DeletionRun
	// that does it.
	AnnotationDeletedBy = "grapnel.dev/deleted-by"

	// AnnotationImportedBy is on Backups that the operator imported by itself, with the value
	// "sync": those make way for newer ones when a location has more than it may import.
	// Backups that a person imports lack it, and stay.
	AnnotationImportedBy = "grapnel.dev/imported-by"

	// AnnotationAbridged is on imported Backups whose manifest says more than an object may:
	// what was left out, with its size. The manifest in the location is complete.
	AnnotationAbridged = "grapnel.dev/abridged"

	// AnnotationAllowMassExpiryUntil is a person's word on a BackupStorageLocation: until that
	// time, as in RFC 3339, more than half of its Backups may expire at once.
	AnnotationAllowMassExpiryUntil = "grapnel.dev/allow-mass-expiry-until"

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

	// AnnotationAllowUnverified is the escape for a backup of Grapnel whose manifest is lost:
	// with the value "true" on a Restore, its archive is restored although nothing tells
	// whether it is the one that was stored. The Restore warns.
	AnnotationAllowUnverified = "grapnel.dev/allow-unverified-archive"

	// SkipValue is the only value a skip annotation may have. Its key is
	// <plugin>/prebackup for a plugin name without a slash, and
	// <domain>/<plugin>.prebackup for a name with one.
	SkipValue = "skip"
)
