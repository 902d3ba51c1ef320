// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// errNoUID means that a Request does not say whose backup it is for.
var errNoUID = errors.New("the UID of the Backup that made the files is missing; only a forced deletion works without it")

// Spec names a DeleteItemAction and says how it is called. Its IgnoreFailure has no meaning: the
// deletion always continues.
type Spec = pluginclient.ItemActionSpec[pluginclient.DeleteItemAction]

// Runner executes deletions. It is safe for concurrent use.
type Runner struct {
	// Logs has a log for each run.
	Logs *runlog.Store
	// Scratch is where an archive is stored, compressed, while actions are called.
	Scratch *scratch.Dir
	// Limits are the limits of the archives that are read.
	Limits archive.Limits
	// Names returns the current resolver of the names of resources in the cluster. Without it,
	// or for resources that the cluster does not serve any more, only plurals of resources in
	// the archive are known.
	Names func(ctx context.Context) (itemaction.ResourceResolver, error)
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Wait waits before a retry; a timer by default.
	Wait func(ctx context.Context, d time.Duration) error
}

// Request is the deletion of one stored backup.
type Request struct {
	// Run is the DeletionRun. It names the log, and its UID is passed to every call.
	Run runlog.Run
	// Name of the backup in its location.
	Name string
	// UID of the Backup that made the files; "" if it is unknown.
	UID string
	// Force accepts files whose owner is unknown as those of the backup: files of a Velero
	// server, or damaged ones. Files that are known to be of another UID are left alone even so.
	Force bool
	// Complete is set if the backup was once complete, and had an archive.
	Complete bool
	// Backup is the Backup for actions, as JSON in the form of velero.io/v1.
	Backup []byte
	// Actions receive the archived objects, each object in the order of the actions.
	Actions []Spec
	// Restores are the names of Restores whose files go with the backup.
	Restores []string
	// Progress is called with the number of clean-ups after each one. It must be fast, and
	// may be nil.
	Progress func(done int64)
}

// Result is the result of a deletion.
type Result struct {
	// Actions are the results of the actions of the Request, in its order; empty if no object
	// was passed on because there is none or the name belongs to another backup.
	Actions []ActionResult
	// Leftovers names what could not be removed, in the format of AppendLeftovers.
	Leftovers []string
	// NameConflict says in a sentence which backup has the name, if it is not the one of the
	// Request: then none of its files are left, and nothing was removed.
	NameConflict string
}

// ActionResult is the result of one action.
type ActionResult struct {
	// Name of the action and of its Plugin.
	Name, Plugin string
	// Items is the number of objects for which it has cleaned up. Failed is the number of
	// objects that it applies to and has not cleaned up for, as far as it is known.
	Items, Failed int64
	// Message says why it failed last, in one line for people; empty if it never did.
	Message string
}

// RemoveFiles removes the files of the backup, the manifest first, and those of the
// Restores. Missing files are no error, nor is another backup of that name, which is not
// touched. The error is that of the store, or a *storage.CorruptError for a backup whose
// owner neither manifest nor claim reveals: only Force removes such a backup. RemoveFiles may be
// repeated.
func (j *Runner) RemoveFiles(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	log := j.loggerForRequest(req)
	ctx = logr.NewContext(ctx, log)
	log.Info("Removing the files of the backup", "backup", req.Name, "force", req.Force)
	var result Result
	var err error
	result.NameConflict, err = j.removeBackup(ctx, store, req)
	if result.NameConflict != "" {
		log.Info("Nothing of the backup is left", "reason", result.NameConflict)
	}
	for _, restore := range req.Restores {
		if err == nil && result.NameConflict == "" { // otherwise the Restores are of the other backup
			err = ignoreInvalidName(store.DeleteRestore(ctx, restore))
		}
	}
	if err != nil {
		log.Error(err, "Removing files failed")
		return result, err
	}
	log.Info("Removed the files", "restores", len(req.Restores))
	return result, nil
}

// removeBackup removes the files of the backup, or returns which other backup has the name.
func (j *Runner) removeBackup(ctx context.Context, store *storage.Store, req Request) (string, error) {
	if req.Force {
		own, err := j.resolveOwnership(ctx, store, req)
		if err == nil && own.mayHaveArchive {
			err = ignoreInvalidName(store.Delete(ctx, req.Name))
		}
		return own.nameConflict, err
	}
	if req.UID == "" {
		return "", errNoUID
	}
	err := store.DeleteOwned(ctx, req.Name, req.UID)
	if taken := (*storage.TakenError)(nil); errors.As(err, &taken) {
		return j.redactedLine(taken.Error()), nil
	}
	return "", ignoreInvalidName(err)
}

// ignoreInvalidName drops an error about a name under which nothing can be stored.
func ignoreInvalidName(err error) error {
	if errors.Is(err, storage.ErrInvalidName) {
		return nil
	}
	return err
}

// RemoveRunLog removes the log of a run that is over.
func (j *Runner) RemoveRunLog(key string) { j.Logs.Remove(key) }

func (j *Runner) loggerForRequest(req Request) logr.Logger {
	return j.Logs.Logger(req.Run, runlog.Main)
}

// redactedLine returns arbitrary text as one line without secrets.
func (j *Runner) redactedLine(text string) string {
	return executor.OneLine(j.Logs.Redactor().String(text))
}

func (j *Runner) currentTime() time.Time {
	if j.Now == nil {
		return time.Now()
	}
	return j.Now()
}

func (j *Runner) waitBeforeRetry(ctx context.Context, d time.Duration) error {
	if j.Wait == nil {
		return rawclient.Sleep(ctx, d)
	}
	return j.Wait(ctx, d)
}
