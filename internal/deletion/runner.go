// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
)

// errNoUID says that a Request is for nobody's backup.
var errNoUID = errors.New("the UID of the Backup that made the files is missing; only a deletion of whatever has the name can do without")

// Spec names a DeleteItemAction and says how it is called. Its Ignore means nothing: the
// deletion always goes on.
type Spec = remote.Spec[adapter.DeleteItemAction]

// Runner does the work of deletions. It is safe for concurrent use.
type Runner struct {
	// Logs has a log for each run, by its Request.Key.
	Logs *runlog.Store
	// Scratch is where an archive is kept while it is shown, compressed.
	Scratch *scratch.Dir
	// Limits of the archives that are read.
	Limits archive.Limits
	// Names returns what resolves the names of resources that actions answer, as the
	// cluster knows them now. Without it, or for what the cluster does not serve any
	// more, only plurals of resources in the archive are known.
	Names func(ctx context.Context) (itemaction.ResourceResolver, error)
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Wait waits before something is tried again; a timer by default.
	Wait func(ctx context.Context, d time.Duration) error
}

// Request is the deletion of one stored backup.
type Request struct {
	// Key is the UID of the DeletionRun: it names the log, and every call has it.
	Key string
	// Name of the backup in its location.
	Name string
	// UID of the Backup that made the files; "" if nobody knows it.
	UID string
	// Force takes files for the backup of which nobody can say whose they are: those of a
	// Velero server, or damaged ones. What is known to be of another UID is left alone, too.
	Force bool
	// Complete says that the backup was complete once, so that there was an archive.
	Complete bool
	// Backup is the Backup for actions, as JSON in the form of velero.io/v1.
	Backup []byte
	// Actions are shown the archived objects, each object to one after the other.
	Actions []Spec
	// Restores are the names of Restores whose files go with the backup.
	Restores []string
	// Progress is told how many clean-ups have been made, after each. It must be fast.
	// It may be nil.
	Progress func(done int64)
}

// Result is what became of a deletion.
type Result struct {
	// Actions tell what each action of the Request did, in its order; none if no object
	// was shown because there is none or the name is another's.
	Actions []ActionResult
	// Leftovers names what could not be removed, as AppendLeftovers makes it.
	Leftovers []string
	// NameConflict says in a sentence who has the name, if not the Backup of the Request:
	// nothing of that is left there, and nothing was removed.
	NameConflict string
}

// ActionResult tells what one action did.
type ActionResult struct {
	// Name of the action and of its Plugin.
	Name, Plugin string
	// Items is how many objects it has cleaned up after, and Failed after how many of
	// those that concern it it has not, as far as that is known.
	Items, Failed int64
	// Message says why it failed last, in one line that can be shown; empty if it never did.
	Message string
}

// RemoveFiles removes the files of the backup, the manifest first, and those of the
// Restores. That nothing is there is no error, nor that another backup has the name, of
// which nothing is removed. The error is that of the store, or a
// *backupstore.CorruptError for a backup of which manifest and claim do not say whose it
// is: only Force removes that. It may be repeated.
func (j *Runner) RemoveFiles(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
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
		if err == nil && result.NameConflict == "" { // else they restored the other one
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

// removeBackup removes the files of the backup, or says who has the name.
func (j *Runner) removeBackup(ctx context.Context, store *backupstore.Store, req Request) (string, error) {
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
	if taken := (*backupstore.TakenError)(nil); errors.As(err, &taken) {
		return j.redactedLine(taken.Error()), nil
	}
	return "", ignoreInvalidName(err)
}

// ignoreInvalidName leaves out an error for a name under which nothing can be stored.
func ignoreInvalidName(err error) error {
	if errors.Is(err, backupstore.ErrInvalidName) {
		return nil
	}
	return err
}

// RemoveRunLog removes the log of a run that is over.
func (j *Runner) RemoveRunLog(key string) { j.Logs.Remove(key) }

func (j *Runner) loggerForRequest(req Request) logr.Logger {
	return j.Logs.Logger(req.Key, runlog.Main)
}

// redactedLine returns a text that may hold anything as one line that can be shown.
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
		return request.Sleep(ctx, d)
	}
	return j.Wait(ctx, d)
}
