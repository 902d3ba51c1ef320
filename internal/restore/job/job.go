// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// ErrNoBackup means that a store holds no finished backup of that name.
var ErrNoBackup = errors.New("there is no finished backup of that name")

// ErrDamaged means that the manifest of a backup can not be understood.
var ErrDamaged = errors.New("its manifest is damaged")

// ErrNotStored means that objects were restored, and that the files which tell what
// became of each could not be stored.
var ErrNotStored = errors.New("what became of each object could not be stored")

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
	// Engine is what the engine is told. The archive, the versions' switch, the actions
	// and Started are filled in.
	Engine restore.Request
	// Started records an operation that one of ItemActions started; see restore.Request.
	Started func(ctx context.Context, op restore.Operation) error
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
	// Completed is when the outcome was known.
	Completed time.Time
}

// Total is the number of objects.
func (r Result) Total() int {
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	return total
}

// Found is what the manifest of a backup says.
type Found struct {
	// UID of the Backup that made it; empty if that is not known.
	UID string
	// FormatVersion of the archive.
	FormatVersion string
	// Phase in which the backup ended.
	Phase string
	// Outputs are what its PreBackup actions answered, by action.
	Outputs map[string]map[string]string
	// Files are the digests of its files; nil if Velero made it.
	Files map[backupstore.File]backupstore.Digest
}

// Engine restores the objects of an archive.
type Engine interface {
	Run(ctx context.Context, req restore.Request) (restore.Result, error)
}

// Job carries out restores. It is safe for concurrent use.
type Job struct {
	Engine Engine
	Logs   *runlog.Book
	// ScratchDir is where archives are spooled, and where what could not be stored is
	// kept.
	ScratchDir string
	// Limits of the archives that are read.
	Limits archive.Limits
	Now    func() time.Time
	// Wait waits before the results are stored again; a timer by default.
	Wait func(ctx context.Context, d time.Duration) error
}

// Find reads the manifest of a backup. The error is ErrNoBackup if there is none, and
// ErrDamaged if it makes no sense.
func (j *Job) Find(ctx context.Context, store *backupstore.Store, name string) (Found, error) {
	velero, grapnel, err := store.Manifest(ctx, name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return Found{}, fmt.Errorf("%w: %q", ErrNoBackup, name)
	}
	if damaged := (*backupstore.CorruptError)(nil); errors.As(err, &damaged) {
		return Found{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Found{}, err
	}
	var manifest struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Status struct {
			Phase         string `json:"phase"`
			FormatVersion string `json:"formatVersion"`
		} `json:"status"`
	}
	if err := json.Unmarshal(velero, &manifest); err != nil {
		return Found{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	found := Found{UID: manifest.Metadata.UID, FormatVersion: manifest.Status.FormatVersion, Phase: manifest.Status.Phase}
	if grapnel != nil {
		found.UID, found.Outputs, found.Files = grapnel.BackupUID, grapnel.Outputs, grapnel.Files
	}
	return found, nil
}

// Restore restores the backup. With an error, objects may have been restored, as far
// as the Result says; doing it again goes on. What became of them is kept for Abandon
// then.
func (j *Job) Restore(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	log.Info("Restoring objects", "restore", req.Namespace+"/"+req.Name, "backup", req.BackupName)
	made, err := j.objects(ctx, store, req)
	made.Results.Warnings.Velero = append(made.Results.Warnings.Velero, req.Warnings...)
	made.Results.WarningCount += len(req.Warnings)
	result := Result{
		Counts: made.Counts, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		Operations: len(made.Operations), Completed: j.Now(),
	}
	what := told{
		report: report{Results: made.Results, Versions: made.Choices, Actions: made.Actions},
		list:   func(w io.Writer) error { return writeList(w, made.ResourceList) },
	}
	switch {
	case err != nil && result.Total() == 0:
		log.Error(err, "Restoring failed")
		return Result{Operations: result.Operations}, err
	case err != nil:
		log.Error(err, "Restoring ended early", "counts", made.Counts)
		return result, errors.Join(err, j.keep(req.UID, what))
	}
	log.Info("Storing results", "counts", made.Counts, "warnings", result.Warnings, "errors", result.Errors)
	return result, j.tell(ctx, store, req, what)
}

// objects spools and verifies the archive, and has its objects restored.
func (j *Job) objects(ctx context.Context, store *backupstore.Store, req Request) (_ restore.Result, err error) {
	found, err := j.Find(ctx, store, req.BackupName)
	if err != nil {
		return restore.Result{}, err
	}
	contents, err := store.Get(ctx, req.BackupName, backupstore.Contents)
	if err != nil {
		return restore.Result{}, unusable(req.BackupName, err)
	}
	digest := found.Files[backupstore.Contents]
	spool, err := archive.NewSpool(ctx, contents, archive.SpoolOptions{
		Dir: j.ScratchDir, Limits: j.Limits, SHA256: digest.SHA256, Size: digest.Size,
	})
	if err = errors.Join(err, contents.Close()); err != nil {
		return restore.Result{}, unusable(req.BackupName, err)
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	engine := req.Engine
	engine.Archive = spool
	engine.Started = req.Started
	engine.UseVersions = req.UseVersions && found.FormatVersion >= archive.FormatVersion
	if engine.Actions, err = j.actions(req); err != nil {
		return restore.Result{}, err
	}
	made, err := j.Engine.Run(ctx, engine)
	for _, action := range made.Called {
		logr.FromContextOrDiscard(ctx).Info("Asked a restore action of a plugin", "action", action.Name, "plugin", action.Plugin,
			"calls", action.Calls, "skipped", action.Skipped, "failed", action.Failed)
	}
	return made, err
}

// Abandon stores the log and the reason of a run that ended before it restored
// anything, or that failed or was stopped later, and with them what it told of its
// objects: what could not be stored then, or else what was.
func (j *Job) Abandon(ctx context.Context, store *backupstore.Store, req Request, reason string) error {
	log := j.Logs.Logger(req.UID, runlog.Main)
	log.Info("The restore ended early", "restore", req.Namespace+"/"+req.Name, "reason", reason)
	what, err := j.kept(req.UID)
	if err != nil { // the reason is still worth storing
		log.Error(err, "What became of each object is lost")
	}
	if what.list == nil {
		if what, err = j.toldBefore(logr.NewContext(ctx, log), store, req); err != nil {
			return err
		}
	}
	what.report.addReason(reason)
	return j.files(ctx, store, req, what)
}

// StorePostLog stores what the PostRestore actions logged. It returns false if
// they logged nothing.
func (j *Job) StorePostLog(ctx context.Context, store *backupstore.Store, req Request) (bool, error) {
	return j.storeLog(ctx, store, req, runlog.PostActions, backupstore.RestorePostLogs)
}
