// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

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
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
)

// ErrBackupNotFound means that a store holds no finished backup of that name.
var ErrBackupNotFound = errors.New("there is no finished backup of that name")

// ErrDamaged means that the manifest of a backup cannot be understood.
var ErrDamaged = errors.New("its manifest is damaged")

// ErrUnverified is ErrDamaged of a backup of Grapnel without the digests of its files.
var ErrUnverified = fmt.Errorf("%w: Grapnel made the backup, and its archive cannot be verified", ErrDamaged)

// ErrResultsNotStored means that objects were restored, and that the files which tell what
// became of each could not be stored.
var ErrResultsNotStored = errors.New("what became of each object could not be stored")

// Request is one restore.
type Request struct {
	// Name, Namespace and UID are those of the Restore object.
	Name, Namespace, UID string
	// Labels and Annotations are those of the Restore object, and Spec is its spec as
	// JSON, for the actions of plugins. Only fields that Velero knows are shown to them.
	Labels, Annotations map[string]string
	Spec                json.RawMessage
	// Start is when the restore began.
	Start time.Time
	// OperationTimeout is how long operations may take of which the spec says nothing.
	OperationTimeout time.Duration
	// BackupName is the backup to restore.
	BackupName string
	// Origin is what is known of who made it.
	Origin Origin
	// Engine is what the engine is told. The archive, the versions' switch, the actions
	// and Started are filled in.
	Engine restore.Request
	// OnOperationStarted records an operation that one of ItemActions started; see restore.Request.
	OnOperationStarted func(ctx context.Context, op restore.Operation) error
	// Operations is how many were started, for Finalize.
	Operations int
	// ItemActions are the item actions of plugins, in the order they are asked in.
	ItemActions []plugin.Spec
	// UseVersions chooses API versions (EnableAPIGroupVersions), where the archive
	// has them.
	UseVersions bool
	// Warnings come from before, for example ignored failures.
	Warnings []string
}

// Result is what became of a restore.
type Result struct {
	// Counts has the number of objects by what became of them.
	Counts           map[restore.Outcome]int
	Warnings, Errors int
	// Operations is how many operations were recorded in this attempt.
	Operations int
	// BackupLabels are for the Backup that was restored.
	BackupLabels map[string]string
	// Completed is when the outcome was known.
	Completed time.Time
	// FirstErrors are some of the errors, for where the results cannot be stored.
	FirstErrors []string
}

// maxFirstErrors is how many errors a Result has in words.
const maxFirstErrors = 3

// Total is the number of objects.
func (r Result) Total() int {
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	return total
}

// Engine restores the objects of an archive.
type Engine interface {
	RestoreObjects(ctx context.Context, req restore.Request) (restore.Result, error)
}

// Runner carries out restores. It is safe for concurrent use.
type Runner struct {
	Engine Engine
	Logs   *runlog.Store
	// Scratch is where archives are spooled, and where what could not be stored is kept.
	Scratch *scratch.Dir
	// Limits of the archives that are read.
	Limits archive.Limits
	Now    func() time.Time
	// Wait waits before the results are stored again; a timer by default.
	Wait func(ctx context.Context, d time.Duration) error

	archives verifiedArchives
}

// Restore restores the backup. With an error, objects may have been restored, as far
// as the Result says; doing it again goes on. What became of them is kept then, for
// StorePendingReport, Finalize and Abandon. ErrResultsNotStored means that nothing else is wrong.
func (j *Runner) Restore(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	log.Info("Restoring objects", "restore", req.Namespace+"/"+req.Name, "backup", req.BackupName)
	made, err := j.restoreObjects(ctx, store, req)
	made.Results.Warnings.Velero = append(made.Results.Warnings.Velero, req.Warnings...)
	made.Results.WarningCount += len(req.Warnings)
	result := Result{
		Counts: made.Counts, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		Operations: len(made.Operations), BackupLabels: made.BackupLabels, Completed: j.Now(),
		FirstErrors: made.Results.Errors.First(maxFirstErrors),
	}
	what := itemReport{
		results:            resultsFile{Results: made.Results, Versions: made.Choices, Actions: made.Actions},
		resourceListWriter: func(w io.Writer) error { return writeResourceList(w, made.ResourceList) },
	}
	switch {
	case err != nil && result.Total() == 0:
		log.Error(err, "Restoring failed")
		return Result{Operations: result.Operations}, err
	case err != nil:
		log.Error(err, "Restoring ended early", "counts", made.Counts)
		return result, errors.Join(err, j.savePendingReport(req.UID, what))
	}
	log.Info("Storing results", "counts", made.Counts, "warnings", result.Warnings, "errors", result.Errors)
	return result, j.storeReportWithRetry(ctx, store, req, what)
}

// restoreObjects has the objects of the archive restored, which it downloads unless Verify did.
func (j *Runner) restoreObjects(ctx context.Context, store *backupstore.Store, req Request) (_ restore.Result, err error) {
	from := j.archives.takeArchive(req.UID)
	if from == nil {
		made, err := j.downloadArchive(ctx, store, req)
		if err != nil {
			return restore.Result{}, err
		}
		from = &made
	}
	defer func() { err = errors.Join(err, from.spool.Close()) }()
	engine := req.Engine
	engine.Archive = from.spool
	engine.OnOperationStarted = req.OnOperationStarted
	engine.UseVersions = req.UseVersions && from.manifest.hasAPIVersions()
	if engine.Actions, err = j.newItemActions(req); err != nil {
		return restore.Result{}, err
	}
	made, err := j.Engine.RestoreObjects(ctx, engine)
	if from.manifest.Unverified {
		made.Results.Warnings.Velero = append(made.Results.Warnings.Velero, unverifiedWarning)
		made.Results.WarningCount++
	}
	for _, action := range made.ActionReports {
		logr.FromContextOrDiscard(ctx).Info("Called a restore action of a plugin", "action", action.Name, "plugin", action.Plugin,
			"calls", action.Calls, "skipped", action.Skipped, "failed", action.Failed)
	}
	return made, err
}

// Abandon stores the log and the reason of a run that ended before it restored
// anything, or that failed or was stopped later, and with them what it told of its
// objects: what could not be stored then, or else what was.
func (j *Runner) Abandon(ctx context.Context, store *backupstore.Store, req Request, reason string) error {
	log := j.Logs.Logger(req.UID, runlog.Main)
	log.Info("The restore ended early", "restore", req.Namespace+"/"+req.Name, "reason", reason)
	what, err := j.readPendingReport(req.UID)
	if err != nil { // the reason is still worth storing
		log.Error(err, "Losing what became of each object")
	}
	if what.resourceListWriter == nil {
		if what, err = j.readStoredReport(logr.NewContext(ctx, log), store, req); err != nil {
			return err
		}
	}
	what.results.addRunError(reason)
	return j.storeReportFiles(ctx, store, req, what)
}

// storedLateWarning is a warning in results that StorePendingReport or Finalize stored.
const storedLateWarning = "these results could not be stored when the objects had been restored, and were stored later"

// StorePendingReport stores what Restore returned ErrResultsNotStored for. It may be called again. The error
// matches ErrResultsUnreadable if nothing is kept, whatever is done.
func (j *Runner) StorePendingReport(ctx context.Context, store *backupstore.Store, req Request) error {
	what, err := j.readPendingReport(req.UID)
	if err != nil || what.resourceListWriter == nil {
		return fmt.Errorf("%w: it was in the scratch directory, and no longer exists: %w", ErrResultsUnreadable, errors.Join(err, fs.ErrNotExist))
	}
	what.results.addRunWarning(storedLateWarning)
	j.Logs.Logger(req.UID, runlog.Main).Info("Storing results that could not be stored before")
	return j.storeReportFiles(ctx, store, req, what)
}

// UploadPostActionLog stores what the PostRestore actions logged. It returns false if
// they logged nothing.
func (j *Runner) UploadPostActionLog(ctx context.Context, store *backupstore.Store, req Request) (bool, error) {
	return j.storeRunLog(ctx, store, req, runlog.PostActions, backupstore.RestorePostLogs)
}
