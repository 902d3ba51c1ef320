// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// ErrBackupNotFound means that a store has no finished backup of that name.
var ErrBackupNotFound = errors.New("there is no finished backup of that name")

// ErrDamaged means that the manifest of a backup cannot be parsed.
var ErrDamaged = errors.New("its manifest is damaged")

// ErrUnverified is ErrDamaged for a backup of Grapnel without the digests of its files.
var ErrUnverified = fmt.Errorf("%w: Grapnel made the backup, and its archive cannot be verified", ErrDamaged)

// ErrResultsNotStored means that objects were restored, but that the files with their
// outcomes could not be stored.
var ErrResultsNotStored = errors.New("what became of each object could not be stored")

// RunRequest is one restore.
type RunRequest struct {
	// Name, Namespace and UID are those of the Restore object.
	Name, Namespace, UID string
	// Labels and Annotations are those of the Restore object, and Spec is its spec as JSON,
	// for the actions of plugins. They get only fields that Velero has.
	Labels, Annotations map[string]string
	Spec                json.RawMessage
	// Start is when the restore began.
	Start time.Time
	// OperationTimeout is the timeout of operations if the spec has none.
	OperationTimeout time.Duration
	// BackupName is the backup to restore.
	BackupName string
	// Origin is what is known about its creator.
	Origin Origin
	// Engine is the request for the engine. The Runner sets the archive, UseVersions, the
	// actions and OnOperationStarted.
	Engine Request
	// OnOperationStarted records an operation that one of ItemActions started; see restore.Request.
	OnOperationStarted func(ctx context.Context, op itemaction.Operation) error
	// Operations is the number of started operations, for Finalize.
	Operations int
	// ItemActions are the item actions of plugins, in the order in which they are called.
	ItemActions []pluginclient.RestoreItemActionSpec
	// UseVersions chooses API versions (EnableAPIGroupVersions), if the archive has them.
	UseVersions bool
	// Warnings are from before the restore, for example ignored failures.
	Warnings []string
}

// logRun identifies the log of the restore.
func (r *RunRequest) logRun() runlog.Run {
	return runlog.Run{UID: r.UID, Kind: "Restore", Namespace: r.Namespace, Name: r.Name}
}

// RunResult is the result of a restore.
type RunResult struct {
	// Counts has the number of objects by outcome.
	Counts           map[Outcome]int
	Warnings, Errors int
	// Operations is the number of operations recorded in this attempt.
	Operations int
	// BackupLabels are labels for the restored Backup.
	BackupLabels map[string]string
	// Completed is when the outcome was determined.
	Completed time.Time
	// Problems are the warnings and errors.
	Problems results.Results
}

// Total is the number of objects.
func (r RunResult) Total() int {
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	return total
}

// ObjectRestorer restores the objects of an archive.
type ObjectRestorer interface {
	RestoreObjects(ctx context.Context, req Request) (Result, error)
}

// Runner carries out restores. It is safe for concurrent use.
type Runner struct {
	Engine ObjectRestorer
	Logs   *runlog.Store
	// Scratch is where archives are spooled, and where reports that could not be stored are
	// saved.
	Scratch *scratch.Dir
	// Limits of archives.
	Limits archive.Limits
	Now    func() time.Time
	// Wait waits before a retry to store the results; a timer by default.
	Wait func(ctx context.Context, d time.Duration) error

	archives verifiedArchives
}

// Restore restores the backup. After an error, objects may have been restored, as reported
// in the Result; a retry continues. Their outcomes are then saved for StorePendingReport,
// Finalize and Abandon. ErrResultsNotStored means that there was no other error.
func (j *Runner) Restore(ctx context.Context, store *storage.Store, req RunRequest) (RunResult, error) {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	ctx = logr.NewContext(ctx, log)
	log.Info("Restoring objects", "backup", req.BackupName)
	made, err := j.restoreObjects(ctx, store, req)
	for _, warning := range req.Warnings {
		made.Results.WarningCount += made.Results.Warnings.AddNew(results.Problem{Reason: results.ReasonPlanWarning, Message: warning})
	}
	result := RunResult{
		Counts: made.Counts, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		Operations: len(made.Operations), BackupLabels: made.BackupLabels, Completed: j.Now(),
		Problems: made.Results,
	}
	what := itemReport{
		results:            resultsFile{Results: made.Results, Versions: made.Choices, Actions: made.Actions},
		resourceListWriter: func(w io.Writer) error { return writeResourceList(w, made.ResourceList) },
	}
	switch {
	case err != nil && result.Total() == 0:
		log.Error(err, "Restoring failed")
		return RunResult{Operations: result.Operations}, err
	case err != nil:
		log.Error(err, "Restoring ended early", "counts", made.Counts)
		return result, errors.Join(err, j.savePendingReport(req.UID, what))
	}
	log.Info("Storing results", "counts", made.Counts, "warnings", result.Warnings, "errors", result.Errors)
	return result, j.storeReportWithRetry(ctx, store, req, what)
}

// restoreObjects restores the objects of the archive, which it downloads unless
// VerifyArchive did.
func (j *Runner) restoreObjects(ctx context.Context, store *storage.Store, req RunRequest) (_ Result, err error) {
	from := j.archives.takeArchive(req.UID)
	if from == nil {
		made, err := j.downloadArchive(ctx, store, req)
		if err != nil {
			return Result{}, err
		}
		from = &made
	}
	defer func() { err = errors.Join(err, from.spool.Close()) }()
	engine := req.Engine
	engine.Archive = from.spool
	engine.OnOperationStarted = req.OnOperationStarted
	engine.UseVersions = req.UseVersions && from.manifest.hasAPIVersions()
	if engine.Actions, err = j.newItemActions(req); err != nil {
		return Result{}, err
	}
	if engine.CapturedClaims, err = readCapturedClaims(ctx, store, req.BackupName); err != nil {
		return Result{}, err
	}
	made, err := j.Engine.RestoreObjects(ctx, engine)
	if from.manifest.Unverified {
		made.Results.WarningCount += made.Results.Warnings.AddNew(results.Problem{Reason: results.ReasonUnverified, Message: unverifiedWarning})
	}
	for _, action := range made.ActionReports {
		logr.FromContextOrDiscard(ctx).Info("Called a restore action of a plugin", "action", action.Name, "plugin", action.Plugin,
			"calls", action.Calls, "skipped", action.Skipped, "failed", action.Failed)
	}
	return made, err
}

// Abandon stores the log and the reason of a run that ended before it restored anything, or
// that failed or was canceled later. It also stores the report about its objects: the saved
// one that could not be stored, or otherwise the stored one.
func (j *Runner) Abandon(ctx context.Context, store *storage.Store, req RunRequest, reason string) error {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	log.Info("The restore ended early", "reason", reason)
	what, err := j.readPendingReport(req.UID)
	if err != nil { // the reason is still stored
		log.Error(err, "The outcome of each object is unknown")
	}
	if what.resourceListWriter == nil {
		if what, err = j.readStoredReport(logr.NewContext(ctx, log), store, req); err != nil {
			return err
		}
	}
	what.results.Errors.AddNew(results.Problem{Reason: results.ReasonFailed, Message: reason})
	return j.storeReportFiles(ctx, store, req, what)
}

// storedLateWarning is a warning in results that StorePendingReport or Finalize stored.
var storedLateWarning = results.Problem{
	Reason:  results.ReasonResultsNotStored,
	Message: "these results could not be stored when the objects had been restored, and were stored later",
}

// StorePendingReport stores the report for which Restore returned ErrResultsNotStored. It
// may be called again. The error matches ErrResultsUnreadable if there is permanently no
// report.
func (j *Runner) StorePendingReport(ctx context.Context, store *storage.Store, req RunRequest) error {
	what, err := j.readPendingReport(req.UID)
	if err != nil || what.resourceListWriter == nil {
		return fmt.Errorf("%w: it was in the scratch directory, and no longer exists: %w", ErrResultsUnreadable, errors.Join(err, fs.ErrNotExist))
	}
	what.results.Warnings.AddNew(storedLateWarning)
	j.Logs.Logger(req.logRun(), runlog.Main).Info("Storing results that could not be stored before")
	return j.storeReportFiles(ctx, store, req, what)
}

// UploadPostActionLog stores the log of the PostRestore actions. It returns false if the
// log is empty.
func (j *Runner) UploadPostActionLog(ctx context.Context, store *storage.Store, req RunRequest) (bool, error) {
	return j.storeRunLog(ctx, store, req, runlog.PostActions, storage.RestorePostLogs)
}
