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

	// ConditionResultsStored says on a Restore whether the files are stored that tell what
	// became of its objects and operations: Unknown while that is tried again, False if it
	// was given up, True if it succeeded later. It is absent if they were stored at once, or
	// if the Restore did not come to its end.
	ConditionResultsStored = "ResultsStored"

	// ConditionDataDeleted is True on a DeletionRun once the stored data is gone, or was
	// given up.
	ConditionDataDeleted = "DataDeleted"

	// ConditionDataAvailable is False on a Backup whose stored data is missing in its
	// location. It is absent as long as it never was.
	ConditionDataAvailable = "DataAvailable"

	// ConditionSynced is False on a BackupStorageLocation of which something could not be
	// brought into this cluster: a backup whose manifest can not be read, or the list.
	ConditionSynced = "Synced"

	// ConditionExpiryHeld is True on a BackupStorageLocation whose Backups do not expire, as it
	// looks as if a clock was wrong, until a person decides. It is absent as long as it never
	// was.
	ConditionExpiryHeld = "ExpiryHeld"

	// ConditionAvailable is True when the backups of a BackupStorageLocation can be read.
	ConditionAvailable = "Available"

	// ConditionWritable is True when new backups can be stored in a BackupStorageLocation.
	// A location that is full is Available and not Writable.
	ConditionWritable = "Writable"

	// ConditionDuplicateActions is True on every Plugin that registers an action which
	// another one registers too. The older one is used; it is absent otherwise.
	ConditionDuplicateActions = "DuplicateActions"
)

// Reasons of the conditions of Backups and Restores.
const (
	// ReasonQueued surfaces when every slot for running Backups is taken.
	ReasonQueued = "Queued"
	// ReasonWaitingForLocation surfaces when the location was not checked yet, and while a
	// new run waits for one that does not exist or cannot be used.
	ReasonWaitingForLocation = "WaitingForLocation"
	// ReasonWaitingForPlugins surfaces when a Plugin was not loaded yet, and while a new run
	// waits for Plugins that do not exist or are not ready.
	ReasonWaitingForPlugins = "WaitingForPlugins"
	// ReasonValidating surfaces while the store is asked whether the name is free.
	ReasonValidating = "Validating"
	// ReasonFailedValidation surfaces when the Backup can not run as written.
	ReasonFailedValidation = "FailedValidation"
	// ReasonPlanRecorded surfaces when the plan stands.
	ReasonPlanRecorded = "PlanRecorded"
	// ReasonVerifyingArchive surfaces while the archive is downloaded and verified, before
	// the first PreRestore action is called.
	ReasonVerifyingArchive = "VerifyingArchive"
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
	// ReasonDeadlineExceeded surfaces when a run did not end before its deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonStoreStalled surfaces when a run failed because its storage location does not
	// answer: a call made no progress, or did not end at the deadline of the run.
	ReasonStoreStalled = "StoreStalled"
	// ReasonRunCrashed surfaces when the operator crashed three times while it worked on the
	// same step of a run.
	ReasonRunCrashed = "RunCrashed"
	// ReasonWaitingForCleanup surfaces after a start of the operator while a run waits until
	// owed clean-up of others was tried.
	ReasonWaitingForCleanup = "WaitingForCleanup"
	// ReasonIsolated surfaces while a run that may have crashed the operator waits until it
	// can be tried alone.
	ReasonIsolated = "Isolated"
	// ReasonCleanupPending surfaces while owed clean-up has not ended well.
	ReasonCleanupPending = "CleanupPending"
	// ReasonCleanupOverdue surfaces when owed clean-up is still not done after
	// its deadline. It is tried again all the same.
	ReasonCleanupOverdue = "CleanupOverdue"
	// ReasonCleanupLost surfaces when owed clean-up can never run, because its HookRun was removed
	// by force and nothing tells how to run it. It stays until a person acknowledges it with
	// AnnotationAbandonCleanup.
	ReasonCleanupLost = "CleanupLost"
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
	// ReasonResultsNotStored surfaces when objects were restored, and what became of each
	// cannot be stored. It is a warning of the Restore.
	ReasonResultsNotStored = "ResultsNotStored"
	// ReasonOperationsNotStored surfaces when only what became of the operations of a Restore
	// cannot be stored. It is a warning of the Restore.
	ReasonOperationsNotStored = "OperationsNotStored"
	// ReasonResultsStored surfaces when they were stored later.
	ReasonResultsStored = "ResultsStored"
	// ReasonLogLost surfaces in an event when the log of a run, or of its Post actions, cannot
	// be stored and is given up.
	ReasonLogLost = "LogLost"
	// ReasonOperationsSucceeded surfaces when all operations ended well.
	ReasonOperationsSucceeded = "OperationsSucceeded"
	// ReasonOperationsFailed surfaces when an operation failed or was cancelled.
	ReasonOperationsFailed = "OperationsFailed"
)

// Reasons of DeletionRun conditions, and of what happens to a Backup whose time is over.
const (
	// ReasonRunningDeleteActions surfaces while a DeleteAction runs.
	ReasonRunningDeleteActions = "RunningDeleteActions"
	// ReasonWaitingForBackup surfaces on a DeletionRun while the backup is still being made,
	// which is cancelled; and on a new Restore while its backup does not exist.
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
	// ReasonImportLimited surfaces when a location has more backups than spec.sync.maxBackups
	// allows to import.
	ReasonImportLimited = "ImportLimited"
	// ReasonImportDisabled surfaces when spec.sync.disabled keeps backups from being imported.
	ReasonImportDisabled = "ImportDisabled"
	// ReasonImported surfaces on a Backup that was found in a location.
	ReasonImported = "Imported"
	// ReasonNameTaken surfaces when a backup was imported under another name than its own.
	ReasonNameTaken = "NameTaken"
)

// Reasons of the condition ExpiryHeld of a BackupStorageLocation.
const (
	// ReasonMassExpiry surfaces when the time of more than half of the Backups of a location
	// is over at once.
	ReasonMassExpiry = "MassExpiry"
	// ReasonClockAhead surfaces when the time of Backups is over by the clock of the operator,
	// and not by that of the API server.
	ReasonClockAhead = "ClockAhead"
	// ReasonExpiryResumed surfaces when Backups expire again.
	ReasonExpiryResumed = "ExpiryResumed"
)

// Reasons of Plugin and BackupStorageLocation conditions.
const (
	// ReasonLoading surfaces while a plugin is being started.
	ReasonLoading = "Loading"
	// ReasonLoaded surfaces when a plugin runs and told its actions.
	ReasonLoaded = "Loaded"
	// ReasonDuplicateAction surfaces when two Plugins register the same action.
	ReasonDuplicateAction = "DuplicateAction"
	// ReasonLabelsRefused surfaces in an event when labels that item actions asked for
	// could not be added to a Backup.
	ReasonLabelsRefused = "LabelsRefused"
	// ReasonInUse surfaces when a deleted Plugin is still needed.
	ReasonInUse = "InUse"
	// ReasonAvailable surfaces when a location can be used.
	ReasonAvailable = "Available"
	// ReasonUnavailable surfaces when a location can not be reached or written.
	ReasonUnavailable = "Unavailable"
	// ReasonWritable surfaces when new backups can be stored in a location.
	ReasonWritable = "Writable"
	// ReasonAlmostFull surfaces when little space is left in a location.
	ReasonAlmostFull = "AlmostFull"
	// ReasonFull surfaces when no space is left in a location. What is stored there can be
	// restored and deleted.
	ReasonFull = "Full"
	// ReasonReadOnly surfaces when spec.accessMode of a location forbids new backups.
	ReasonReadOnly = "ReadOnly"
	// ReasonInvalidSpec surfaces when a location can not work as written.
	ReasonInvalidSpec = "InvalidSpec"
)
