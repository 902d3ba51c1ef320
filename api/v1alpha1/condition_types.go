// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Every kind carries the three kstatus conditions, runs carry
// Succeeded as their root condition as well.
const (
	// ConditionSucceeded is Unknown while a run goes on. True and False are
	// final: a later reconcile never changes them.
	ConditionSucceeded = "Succeeded"

	// ConditionReady is True when there is nothing left to do and all is well.
	ConditionReady = "Ready"

	// ConditionReconciling is True while the operator works on the object or
	// waits for something that will come.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True when the object will not get any further by
	// itself.
	ConditionStalled = "Stalled"

	// ConditionPlanned is True once the plan of a Backup, and what will be owed
	// for it, is recorded. Nothing runs before.
	ConditionPlanned = "Planned"

	// ConditionCleanupOwed is True from the first action that must be undone
	// until its clean-up has run.
	ConditionCleanupOwed = "CleanupOwed"

	// ConditionPostActionsSucceeded says whether every PostBackup action that
	// ran did well. A failure there does not change the outcome of the Backup.
	ConditionPostActionsSucceeded = "PostActionsSucceeded"

	// ConditionItemsProcessed is True on a Backup or Restore once all of its objects were
	// archived or restored, and only operations that actions started on them go on; and on a
	// DeletionRun once all archived objects were shown to DeleteItemActions.
	ConditionItemsProcessed = "ItemsProcessed"

	// ConditionOperationsSucceeded says on a Backup or Restore how far the operations are
	// that actions started on its objects: Unknown while one goes on, True when all of
	// them ended well. It is absent as long as there are none.
	ConditionOperationsSucceeded = "OperationsSucceeded"

	// ConditionDataDeleted is True on a DeletionRun once the stored data is gone, or was
	// given up.
	ConditionDataDeleted = "DataDeleted"

	// ConditionDataAvailable is False on a Backup whose stored data is missing in its
	// location. It is absent as long as it never was.
	ConditionDataAvailable = "DataAvailable"

	// ConditionSynced is False on a BackupStorageLocation of which something could not be
	// brought into this cluster: a backup whose manifest can not be read, or the list.
	ConditionSynced = "Synced"

	// ConditionAvailable is True when a BackupStorageLocation can be used.
	ConditionAvailable = "Available"

	// ConditionDuplicateActions is True on every Plugin that registers an action which
	// another one registers too. The older one is used; it is absent otherwise.
	ConditionDuplicateActions = "DuplicateActions"
)

// Reasons of the conditions of Backups and Restores.
const (
	// ReasonQueued surfaces when every slot for running Backups is taken.
	ReasonQueued = "Queued"
	// ReasonWaitingForLocation surfaces when the location was not checked yet.
	ReasonWaitingForLocation = "WaitingForLocation"
	// ReasonWaitingForPlugins surfaces when a Plugin was not loaded yet.
	ReasonWaitingForPlugins = "WaitingForPlugins"
	// ReasonValidating surfaces while the store is asked whether the name is free.
	ReasonValidating = "Validating"
	// ReasonFailedValidation surfaces when the Backup can not run as written.
	ReasonFailedValidation = "FailedValidation"
	// ReasonPlanRecorded surfaces when the plan stands.
	ReasonPlanRecorded = "PlanRecorded"
	// ReasonRunningPreRestoreActions surfaces while a PreRestore action runs.
	ReasonRunningPreRestoreActions = "RunningPreRestoreActions"
	// ReasonPreRestoreActionFailed surfaces when a PreRestore action failed, so
	// that nothing was restored.
	ReasonPreRestoreActionFailed = "PreRestoreActionFailed"
	// ReasonRunningPostRestoreActions surfaces while a PostRestore action runs.
	ReasonRunningPostRestoreActions = "RunningPostRestoreActions"
	// ReasonPostRestoreActionsSucceeded surfaces when every PostRestore action
	// that ran did well.
	ReasonPostRestoreActionsSucceeded = "PostRestoreActionsSucceeded"
	// ReasonPostRestoreActionFailed surfaces when a PostRestore action failed.
	ReasonPostRestoreActionFailed = "PostRestoreActionFailed"
	// ReasonRunningPreActions surfaces while a PreBackup action runs.
	ReasonRunningPreActions = "RunningPreBackupActions"
	// ReasonPreActionFailed surfaces when a PreBackup action failed, so that
	// nothing was archived.
	ReasonPreActionFailed = "PreBackupActionFailed"
	// ReasonArchiving surfaces while objects are read and stored.
	ReasonArchiving = "Archiving"
	// ReasonRestoring surfaces while objects are created or updated.
	ReasonRestoring = "Restoring"
	// ReasonRunningPostActions surfaces while a PostBackup action runs.
	ReasonRunningPostActions = "RunningPostBackupActions"
	// ReasonStoringLogs surfaces while the last logs are uploaded.
	ReasonStoringLogs = "StoringLogs"
	// ReasonCancelling surfaces while a cancelled step is being stopped.
	ReasonCancelling = "Cancelling"
	// ReasonCancelled surfaces when the Backup was cancelled or deleted.
	ReasonCancelled = "Cancelled"
	// ReasonCompleted surfaces when everything selected is stored.
	ReasonCompleted = "Completed"
	// ReasonPartiallyFailed surfaces when some objects could not be archived.
	ReasonPartiallyFailed = "PartiallyFailed"
	// ReasonFailed surfaces when nothing usable was stored.
	ReasonFailed = "Failed"
	// ReasonCleanupPending surfaces while owed clean-up has not ended well.
	ReasonCleanupPending = "CleanupPending"
	// ReasonCleanupOverdue surfaces when owed clean-up is still not done after
	// its deadline. It is tried again all the same.
	ReasonCleanupOverdue = "CleanupOverdue"
	// ReasonCleanupDone surfaces when nothing is owed any more.
	ReasonCleanupDone = "CleanupDone"
	// ReasonCleanupAbandoned surfaces when a person gave owed clean-up up.
	ReasonCleanupAbandoned = "CleanupAbandoned"
	// ReasonPostActionsSucceeded surfaces when every PostBackup action that ran
	// did well.
	ReasonPostActionsSucceeded = "PostBackupActionsSucceeded"
	// ReasonPostActionFailed surfaces when a PostBackup action failed.
	ReasonPostActionFailed = "PostBackupActionFailed"
)

// Reasons of HookRun conditions.
const (
	// ReasonPending surfaces when it is not the action's turn yet.
	ReasonPending = "Pending"
	// ReasonRunning surfaces while an attempt runs.
	ReasonRunning = "Running"
	// ReasonCalledAgainLater surfaces between two calls of an attempt that
	// answered "not done yet".
	ReasonCalledAgainLater = "CalledAgainLater"
	// ReasonRetrying surfaces while the next attempt is waited for.
	ReasonRetrying = "Retrying"
	// ReasonActionFailed surfaces when the action answered that it failed.
	ReasonActionFailed = "ActionFailed"
	// ReasonTimedOut surfaces when an attempt was not done in time.
	ReasonTimedOut = "TimedOut"
	// ReasonUnreachable surfaces when the plugin could not be called.
	ReasonUnreachable = "PluginUnreachable"
	// ReasonInvalid surfaces when the run can not be carried out as written.
	ReasonInvalid = "Invalid"
	// ReasonInterrupted surfaces when the operator went away during an attempt
	// of an action with onInterruption Fail.
	ReasonInterrupted = "Interrupted"
	// ReasonIgnored surfaces when failurePolicy Ignore covered a failure.
	ReasonIgnored = "FailureIgnored"
	// ReasonNotNeeded surfaces when a planned action had nothing to do.
	ReasonNotNeeded = "NotNeeded"
)

// Reasons of AsyncOperation conditions, and of what a Backup or Restore says about its
// operations. An AsyncOperation has Running, PluginUnreachable, Cancelling, Completed,
// Cancelled and TimedOut too.
const (
	// ReasonStarted surfaces until the plugin told how far an operation is.
	ReasonStarted = "Started"
	// ReasonOperationFailed surfaces when the plugin said that an operation failed.
	ReasonOperationFailed = "OperationFailed"
	// ReasonOperationStalled surfaces when an operation did nothing more for its
	// stallTimeout.
	ReasonOperationStalled = "OperationStalled"
	// ReasonOperationLost surfaces when the plugin does not know an operation that it
	// started: it forgot it, so nobody knows how it ended.
	ReasonOperationLost = "OperationLost"
	// ReasonCancelRefused surfaces when the plugin refused to end an operation.
	ReasonCancelRefused = "CancelRefused"
	// ReasonCancelUnconfirmed surfaces when an operation was to end and the plugin never
	// said that it did.
	ReasonCancelUnconfirmed = "CancelUnconfirmed"
	// ReasonObjectsProcessed surfaces when every object was archived or restored.
	ReasonObjectsProcessed = "ObjectsProcessed"
	// ReasonWaitingForOperations surfaces while operations go on.
	ReasonWaitingForOperations = "WaitingForPluginOperations"
	// ReasonFinalizing surfaces while what operations left behind is archived, and what
	// became of them is stored.
	ReasonFinalizing = "Finalizing"
	// ReasonOperationsSucceeded surfaces when all operations ended well.
	ReasonOperationsSucceeded = "OperationsSucceeded"
	// ReasonOperationsFailed surfaces when an operation failed or was cancelled.
	ReasonOperationsFailed = "OperationsFailed"
)

// Reasons of DeletionRun conditions, and of what happens to a Backup whose time is over.
const (
	// ReasonRunningDeleteActions surfaces while a DeleteAction runs.
	ReasonRunningDeleteActions = "RunningDeleteActions"
	// ReasonWaitingForBackup surfaces while the backup is still being made; it is cancelled.
	ReasonWaitingForBackup = "WaitingForBackup"
	// ReasonWaitingForRestore surfaces while a Restore reads the backup.
	ReasonWaitingForRestore = "WaitingForRestore"
	// ReasonWaitingForDeletionRun surfaces while another DeletionRun deletes the same backup.
	ReasonWaitingForDeletionRun = "WaitingForDeletionRun"
	// ReasonDeleting surfaces while stored data is removed.
	ReasonDeleting = "Deleting"
	// ReasonRemovingObjects surfaces while the Backup and its Restores are removed.
	ReasonRemovingObjects = "RemovingObjects"
	// ReasonDataDeleted surfaces when the stored data is gone.
	ReasonDataDeleted = "DataDeleted"
	// ReasonDataLeftBehind surfaces when stored data stays although it was to be destroyed:
	// somebody gave it up, or nothing can be created any more that would destroy it.
	ReasonDataLeftBehind = "DataLeftBehind"
	// ReasonRetained surfaces when a Backup is removed and its stored data stays, as asked.
	ReasonRetained = "DataRetained"
	// ReasonExpired surfaces when the time of a Backup is over.
	ReasonExpired = "Expired"
	// ReasonKept surfaces when the time of a Backup is over that is kept all the same: it
	// is among the newest that succeeded of its Schedule.
	ReasonKept = "KeptByItsSchedule"
	// ReasonDataMissing surfaces when the location does not have a backup any more.
	ReasonDataMissing = "DataMissing"
	// ReasonDataFound surfaces when it has it again.
	ReasonDataFound = "DataFound"
)

// Reasons of Schedule conditions and events.
const (
	// ReasonScheduled surfaces when a Schedule waits for its next time.
	ReasonScheduled = "Scheduled"
	// ReasonPaused surfaces when spec.paused keeps a Schedule from creating Backups.
	ReasonPaused = "Paused"
	// ReasonBackupCreated surfaces when a Schedule created a Backup.
	ReasonBackupCreated = "BackupCreated"
	// ReasonSkipped surfaces when a Schedule left a time out.
	ReasonSkipped = "Skipped"
	// ReasonReplaced surfaces when a Schedule cancelled a Backup for the next one.
	ReasonReplaced = "Replaced"
)

// Reasons of the condition Synced of a BackupStorageLocation.
const (
	// ReasonSynced surfaces when every backup of a location has its object.
	ReasonSynced = "Synced"
	// ReasonSyncFailed surfaces when a location could not be listed.
	ReasonSyncFailed = "SyncFailed"
	// ReasonBackupsUnreadable surfaces when some backups of a location can not be imported.
	ReasonBackupsUnreadable = "BackupsUnreadable"
	// ReasonImported surfaces on a Backup that was found in a location.
	ReasonImported = "Imported"
	// ReasonNameTaken surfaces when a backup was imported under another name than its own.
	ReasonNameTaken = "NameTaken"
)

// Reasons of Plugin and BackupStorageLocation conditions.
const (
	// ReasonLoading surfaces while a plugin is being started.
	ReasonLoading = "Loading"
	// ReasonLoaded surfaces when a plugin runs and told its actions.
	ReasonLoaded = "Loaded"
	// ReasonSuspended surfaces when spec.suspend keeps a plugin out of plans.
	ReasonSuspended = "Suspended"
	// ReasonDuplicateAction surfaces when two Plugins register the same action.
	ReasonDuplicateAction = "DuplicateAction"
	// ReasonLabelsRefused surfaces in an event when labels that item actions asked for
	// could not be added to a Backup.
	ReasonLabelsRefused = "LabelsRefused"
	// ReasonInUse surfaces when a deleted Plugin is still needed.
	ReasonInUse = "InUse"
	// ReasonChecking surfaces while a location is being checked.
	ReasonChecking = "Checking"
	// ReasonAvailable surfaces when a location can be read and written.
	ReasonAvailable = "Available"
	// ReasonUnavailable surfaces when a location can not be reached or written.
	ReasonUnavailable = "Unavailable"
	// ReasonInvalidSpec surfaces when a location can not work as written.
	ReasonInvalidSpec = "InvalidSpec"
)
