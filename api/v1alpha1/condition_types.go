// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Every kind has the three kstatus conditions. Runs also have
// Succeeded as their root condition.
const (
	// ConditionSucceeded is Unknown while a run is in progress. True and False are
	// final: a later reconcile never changes them.
	ConditionSucceeded = "Succeeded"

	// ConditionReady is True when the object has reached its desired state.
	ConditionReady = "Ready"

	// ConditionReconciling is True while the operator works on the object or
	// waits for something that is expected to happen.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True when the object cannot make progress without a
	// change by a user.
	ConditionStalled = "Stalled"

	// ConditionPlanned is True once the plan of a run, including the clean-up that it
	// may owe, is recorded. Nothing runs before that.
	ConditionPlanned = "Planned"

	// ConditionCleanupOwed is True from the first action that must be undone
	// until its clean-up has succeeded.
	ConditionCleanupOwed = "CleanupOwed"

	// ConditionPostActionsSucceeded reports whether every PostBackup action that
	// ran succeeded. A failure there does not change the outcome of the Backup.
	ConditionPostActionsSucceeded = "PostActionsSucceeded"

	// ConditionItemsProcessed is True on a Backup or Restore once all of its objects were
	// archived or restored, and only operations that actions started on them are still
	// running. On a DeletionRun it is True once all archived objects were passed to the
	// DeleteItemActions.
	ConditionItemsProcessed = "ItemsProcessed"

	// ConditionOperationsSucceeded summarizes on a Backup or Restore the operations that
	// actions started on its objects: Unknown while one is running, True when all of
	// them succeeded. It is absent as long as there are none.
	ConditionOperationsSucceeded = "OperationsSucceeded"

	// ConditionDataCaptured reports on a Backup whether the data of its PersistentVolumeClaims is
	// in it: Unknown while operations capture it, False if a claim has no data. It is absent if
	// there are no claims or there is no backup.
	ConditionDataCaptured = "DataCaptured"

	// ConditionResultsStored reports on a Restore whether the files with the outcomes of its
	// objects and operations are stored: Unknown while storing them is retried, False if the
	// operator gave up, True if a retry succeeded. It is absent if the first attempt
	// succeeded, or if the Restore did not finish.
	ConditionResultsStored = "ResultsStored"

	// ConditionDataDeleted is True on a DeletionRun once the stored data is deleted or
	// abandoned.
	ConditionDataDeleted = "DataDeleted"

	// ConditionDataAvailable is False on a Backup whose stored data is missing in its
	// location. It is absent unless the data was missing at some time.
	ConditionDataAvailable = "DataAvailable"

	// ConditionSynced is False on a BackupStorageLocation that could not be fully imported
	// into this cluster: a manifest cannot be read, or listing the location failed.
	ConditionSynced = "Synced"

	// ConditionExpiryHeld is True on a BackupStorageLocation whose Backups do not expire until
	// a person decides, because a clock appears to be wrong. It is absent unless expiry was
	// held at some time.
	ConditionExpiryHeld = "ExpiryHeld"

	// ConditionAvailable is True when the backups of a BackupStorageLocation can be read.
	ConditionAvailable = "Available"

	// ConditionWritable is True when new backups can be stored in a BackupStorageLocation.
	// A location that is full is Available and not Writable.
	ConditionWritable = "Writable"

	// ConditionDuplicateActions is True on every Plugin that registers an action which
	// another Plugin registers too. The older Plugin is used. Otherwise it is absent.
	ConditionDuplicateActions = "DuplicateActions"
)

// Reasons of the conditions of Backups and Restores.
const (
	// ReasonQueued surfaces when every slot for running runs of the kind is taken.
	ReasonQueued = "Queued"
	// ReasonWaitingForLocation surfaces when the location was not checked yet, and while a
	// new run waits for one that does not exist or cannot be used.
	ReasonWaitingForLocation = "WaitingForLocation"
	// ReasonWaitingForPlugins surfaces when a Plugin was not loaded yet, and while a run that has
	// not begun waits for Plugins that do not exist or are not ready.
	ReasonWaitingForPlugins = "WaitingForPlugins"
	// ReasonValidating surfaces while the operator checks in the store that the name is free.
	ReasonValidating = "Validating"
	// ReasonFailedValidation surfaces when the Backup cannot run as written.
	ReasonFailedValidation = "FailedValidation"
	// ReasonPlanRecorded surfaces when the plan is recorded.
	ReasonPlanRecorded = "PlanRecorded"
	// ReasonVerifyingArchive surfaces while the archive is downloaded and verified, before
	// the first PreRestore action is called.
	ReasonVerifyingArchive = "VerifyingArchive"
	// ReasonRunningPreRestoreActions surfaces while a PreRestore action runs.
	ReasonRunningPreRestoreActions = "RunningPreRestoreActions"
	// ReasonPreRestoreActionFailed surfaces when a PreRestore action failed.
	// Nothing was restored.
	ReasonPreRestoreActionFailed = "PreRestoreActionFailed"
	// ReasonRunningPostRestoreActions surfaces while a PostRestore action runs.
	ReasonRunningPostRestoreActions = "RunningPostRestoreActions"
	// ReasonPostRestoreActionsSucceeded surfaces when every PostRestore action
	// that ran succeeded.
	ReasonPostRestoreActionsSucceeded = "PostRestoreActionsSucceeded"
	// ReasonPostRestoreActionFailed surfaces when a PostRestore action failed.
	ReasonPostRestoreActionFailed = "PostRestoreActionFailed"
	// ReasonRunningPreActions surfaces while a PreBackup action runs.
	ReasonRunningPreActions = "RunningPreBackupActions"
	// ReasonPreActionFailed surfaces when a PreBackup action failed. Nothing was
	// archived.
	ReasonPreActionFailed = "PreBackupActionFailed"
	// ReasonArchiving surfaces while objects are read and stored.
	ReasonArchiving = "Archiving"
	// ReasonRestoring surfaces while objects are created or updated.
	ReasonRestoring = "Restoring"
	// ReasonRunningPostActions surfaces while a PostBackup action runs.
	ReasonRunningPostActions = "RunningPostBackupActions"
	// ReasonStoringLogs surfaces while the last logs are uploaded.
	ReasonStoringLogs = "StoringLogs"
	// ReasonCancelling surfaces while a canceled step is being stopped.
	ReasonCancelling = "Cancelling"
	// ReasonCancelled surfaces when the Backup was canceled or deleted.
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
	// ReasonRunCrashed surfaces when the operator crashed while it worked on the same step of a
	// run, three times in a row, or five times if other work ran beside it.
	ReasonRunCrashed = "RunCrashed"
	// ReasonWaitingForCleanup surfaces after a start of the operator while a run waits until
	// the owed clean-up of other runs has been tried.
	ReasonWaitingForCleanup = "WaitingForCleanup"
	// ReasonIsolated surfaces while a run that may have crashed the operator waits until it
	// can run alone.
	ReasonIsolated = "Isolated"
	// ReasonCleanupPending surfaces while owed clean-up has not succeeded.
	ReasonCleanupPending = "CleanupPending"
	// ReasonCleanupOverdue surfaces when owed clean-up has not succeeded by its
	// deadline. The operator continues to retry it.
	ReasonCleanupOverdue = "CleanupOverdue"
	// ReasonCleanupLost surfaces when owed clean-up can never run, because its HookRun was
	// deleted without its finalizer and no record says how to run it. It stays until a person
	// acknowledges it with AnnotationAbandonCleanup.
	ReasonCleanupLost = "CleanupLost"
	// ReasonCleanupDone surfaces when no clean-up is owed any more.
	ReasonCleanupDone = "CleanupDone"
	// ReasonCleanupAbandoned surfaces when a person abandoned owed clean-up.
	ReasonCleanupAbandoned = "CleanupAbandoned"
	// ReasonPostActionsSucceeded surfaces when every PostBackup action that ran
	// succeeded.
	ReasonPostActionsSucceeded = "PostBackupActionsSucceeded"
	// ReasonPostActionFailed surfaces when a PostBackup action failed.
	ReasonPostActionFailed = "PostBackupActionFailed"
)

// Reasons of events that belong to no condition.
const (
	// ReasonPlanWarning surfaces when the plan of a run has warnings.
	ReasonPlanWarning = "PlanWarning"
	// ReasonQuiesceOverdue surfaces when a workload was quiesced for as long as allowed.
	ReasonQuiesceOverdue = "QuiesceOverdue"
	// ReasonQuiesceAbandoned surfaces when a workload was still quiesced for runs that will not
	// unquiesce it.
	ReasonQuiesceAbandoned = "QuiesceAbandoned"
	// ReasonNotQuiesced surfaces when workloads were started by others while a run held them. The
	// outcome of the Backup is already recorded then, and does not change.
	ReasonNotQuiesced = "NotQuiesced"
	// ReasonNotUnquiesced surfaces when workloads stay stopped after a run, because their saved
	// state was removed, replaced or made unreadable.
	ReasonNotUnquiesced = "NotUnquiesced"
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
	// ReasonRetrying surfaces while the HookRun waits for the next attempt.
	ReasonRetrying = "Retrying"
	// ReasonActionFailed surfaces when the action reported a failure.
	ReasonActionFailed = "ActionFailed"
	// ReasonTimedOut surfaces when an attempt exceeded its timeout.
	ReasonTimedOut = "TimedOut"
	// ReasonUnreachable surfaces when the plugin could not be called.
	ReasonUnreachable = "PluginUnreachable"
	// ReasonInvalid surfaces when the HookRun cannot be executed as written.
	ReasonInvalid = "Invalid"
	// ReasonInterrupted surfaces when the operator stopped during an attempt
	// of an action with onInterruption Fail.
	ReasonInterrupted = "Interrupted"
	// ReasonIgnored surfaces when failurePolicy Ignore covered a failure.
	ReasonIgnored = "FailureIgnored"
	// ReasonNotNeeded surfaces when a planned action had nothing to do.
	ReasonNotNeeded = "NotNeeded"
	// ReasonSkippedByUser surfaces when a user skipped an action, also in an event of its parent.
	ReasonSkippedByUser = "SkippedByUser"
	// ReasonRetriedByUser surfaces in an event when a user retried an action.
	ReasonRetriedByUser = "RetriedByUser"
	// ReasonInterventionRefused surfaces in an event when a user requested to retry or skip an
	// action that cannot be retried or skipped.
	ReasonInterventionRefused = "InterventionRefused"
)

// Reasons of AsyncOperation conditions, and of the conditions of a Backup or Restore about
// its operations. An AsyncOperation also has Running, PluginUnreachable, Cancelling,
// Completed, Cancelled and TimedOut.
const (
	// ReasonStarted surfaces until the plugin reports the progress of an operation.
	ReasonStarted = "Started"
	// ReasonOperationFailed surfaces when the plugin reported that an operation failed.
	ReasonOperationFailed = "OperationFailed"
	// ReasonOperationStalled surfaces when an operation made no progress for its
	// stallTimeout.
	ReasonOperationStalled = "OperationStalled"
	// ReasonOperationLost surfaces when the plugin no longer knows an operation that it
	// started. The outcome of the operation is unknown.
	ReasonOperationLost = "OperationLost"
	// ReasonCancelRefused surfaces when the plugin refused to cancel an operation.
	ReasonCancelRefused = "CancelRefused"
	// ReasonCancelUnconfirmed surfaces when an operation was canceled and the plugin never
	// confirmed its end.
	ReasonCancelUnconfirmed = "CancelUnconfirmed"
	// ReasonObjectsProcessed surfaces when every object was archived or restored.
	ReasonObjectsProcessed = "ObjectsProcessed"
	// ReasonWaitingForOperations surfaces while operations are running.
	ReasonWaitingForOperations = "WaitingForPluginOperations"
	// ReasonFinalizing surfaces while the objects that operations changed are archived, and
	// the outcomes of the operations are stored.
	ReasonFinalizing = "Finalizing"
	// ReasonResultsNotStored surfaces when objects were restored, but the outcome of each
	// cannot be stored. It is a warning of the Restore.
	ReasonResultsNotStored = "ResultsNotStored"
	// ReasonOperationsNotStored surfaces when only the outcomes of the operations of a Restore
	// cannot be stored. It is a warning of the Restore.
	ReasonOperationsNotStored = "OperationsNotStored"
	// ReasonResultsStored surfaces when a retry stored the results.
	ReasonResultsStored = "ResultsStored"
	// ReasonLogLost surfaces in an event when the log of a run, or of its Post actions, cannot
	// be stored and the operator gives up.
	ReasonLogLost = "LogLost"
	// ReasonOperationsSucceeded surfaces when all operations succeeded.
	ReasonOperationsSucceeded = "OperationsSucceeded"
	// ReasonOperationsFailed surfaces when an operation failed or was canceled.
	ReasonOperationsFailed = "OperationsFailed"
	// ReasonCapturing surfaces while operations capture the data of claims.
	ReasonCapturing = "Capturing"
	// ReasonDataCaptured surfaces when the data of all claims is captured.
	ReasonDataCaptured = "DataCaptured"
	// ReasonDataNotCaptured surfaces when a backup has claims without their data.
	ReasonDataNotCaptured = "DataNotCaptured"
)

// Reasons of DeletionRun conditions, and of the expiry of Backups.
const (
	// ReasonRunningDeleteActions surfaces while a DeleteAction runs.
	ReasonRunningDeleteActions = "RunningDeleteActions"
	// ReasonWaitingForBackup surfaces on a DeletionRun while it cancels a Backup that is
	// still running, and on a new Restore while its backup does not exist.
	ReasonWaitingForBackup = "WaitingForBackup"
	// ReasonWaitingForRestore surfaces while a Restore reads the backup.
	ReasonWaitingForRestore = "WaitingForRestore"
	// ReasonWaitingForDeletionRun surfaces while another DeletionRun deletes the same backup.
	ReasonWaitingForDeletionRun = "WaitingForDeletionRun"
	// ReasonDeleting surfaces while stored data is removed.
	ReasonDeleting = "Deleting"
	// ReasonRemovingObjects surfaces while the Backup and its Restores are removed.
	ReasonRemovingObjects = "RemovingObjects"
	// ReasonDataDeleted surfaces when the stored data is deleted.
	ReasonDataDeleted = "DataDeleted"
	// ReasonDataLeftBehind surfaces when stored data stays although it should be destroyed: a
	// person abandoned it, or no DeletionRun can be created any more that would destroy it.
	ReasonDataLeftBehind = "DataLeftBehind"
	// ReasonExpired surfaces when a Backup has expired.
	ReasonExpired = "Expired"
	// ReasonKept surfaces when an expired Backup is kept, because it is among the newest
	// Completed Backups of its Schedule.
	ReasonKept = "KeptByItsSchedule"
	// ReasonDataMissing surfaces when the location no longer contains a backup.
	ReasonDataMissing = "DataMissing"
	// ReasonDataFound surfaces when the location contains the backup again.
	ReasonDataFound = "DataFound"
)

// Reasons of Schedule conditions and events.
const (
	// ReasonScheduled surfaces when a Schedule waits for its next time.
	ReasonScheduled = "Scheduled"
	// ReasonSuspended surfaces when spec.suspend keeps a Schedule from creating Backups.
	ReasonSuspended = "Suspended"
	// ReasonBackupCreated surfaces when a Schedule created a Backup.
	ReasonBackupCreated = "BackupCreated"
	// ReasonSkipped surfaces when a Schedule skipped a time.
	ReasonSkipped = "Skipped"
	// ReasonReplaced surfaces when a Schedule canceled a Backup for the next one.
	ReasonReplaced = "Replaced"
)

// Reasons of the condition Synced of a BackupStorageLocation.
const (
	// ReasonSynced surfaces when every backup of a location has its object.
	ReasonSynced = "Synced"
	// ReasonSyncFailed surfaces when a location could not be listed.
	ReasonSyncFailed = "SyncFailed"
	// ReasonBackupsUnreadable surfaces when some backups of a location cannot be imported.
	ReasonBackupsUnreadable = "BackupsUnreadable"
	// ReasonTooManyBackups surfaces when a location has too many backups to record which of them
	// were removed from this cluster.
	ReasonTooManyBackups = "TooManyBackups"
	// ReasonImportLimited surfaces when a location has more backups than spec.sync.maxBackups
	// allows the operator to import.
	ReasonImportLimited = "ImportLimited"
	// ReasonImportDisabled surfaces when spec.sync turns the import of backups off.
	ReasonImportDisabled = "ImportDisabled"
	// ReasonImported surfaces on a Backup that was found in a location.
	ReasonImported = "Imported"
	// ReasonNameTaken surfaces when a backup was imported under a different name.
	ReasonNameTaken = "NameTaken"
)

// Reasons of the condition ExpiryHeld of a BackupStorageLocation.
const (
	// ReasonMassExpiry surfaces when more than half of the Backups of a location expire at
	// once.
	ReasonMassExpiry = "MassExpiry"
	// ReasonClockAhead surfaces when Backups have expired by the clock of the operator, but
	// not by that of the API server.
	ReasonClockAhead = "ClockAhead"
	// ReasonExpiryResumed surfaces when Backups expire again.
	ReasonExpiryResumed = "ExpiryResumed"
)

// Reasons of Plugin and BackupStorageLocation conditions.
const (
	// ReasonLoading surfaces while a plugin is being started.
	ReasonLoading = "Loading"
	// ReasonLoaded surfaces when a plugin runs and has announced its actions.
	ReasonLoaded = "Loaded"
	// ReasonLoadFailed surfaces when a plugin could not be loaded. The condition Ready has a more
	// specific reason if there is one.
	ReasonLoadFailed = "LoadFailed"
	// ReasonDuplicateAction surfaces when two Plugins register the same action.
	ReasonDuplicateAction = "DuplicateAction"
	// ReasonLabelsRefused surfaces in an event when labels that item actions requested
	// could not be added to a Backup.
	ReasonLabelsRefused = "LabelsRefused"
	// ReasonInUse surfaces when a deleted Plugin is still needed.
	ReasonInUse = "InUse"
	// ReasonAvailable surfaces when a location can be used.
	ReasonAvailable = "Available"
	// ReasonUnavailable surfaces when a location cannot be reached or written.
	ReasonUnavailable = "Unavailable"
	// ReasonWritable surfaces when new backups can be stored in a location.
	ReasonWritable = "Writable"
	// ReasonAlmostFull surfaces when little space is left in a location.
	ReasonAlmostFull = "AlmostFull"
	// ReasonFull surfaces when no space is left in a location. The backups stored there can be
	// restored and deleted.
	ReasonFull = "Full"
	// ReasonReadOnly surfaces when spec.accessMode of a location forbids new backups.
	ReasonReadOnly = "ReadOnly"
	// ReasonInvalidSpec surfaces when a location cannot work as written.
	ReasonInvalidSpec = "InvalidSpec"
)
