// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	itemplugin "github.com/grapnel-dev/grapnel/internal/itemaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Request is one backup.
type Request struct {
	// Name, Namespace and UID are those of the Backup object.
	Name, Namespace, UID string
	// Labels and Annotations are stored with the backup.
	Labels, Annotations map[string]string
	// Spec is the spec of the Backup as JSON; its field names are Velero's.
	Spec json.RawMessage
	// Object is the whole Backup as JSON, for another cluster to import.
	Object json.RawMessage
	// StorageLocation is the name of the location, for Velero.
	StorageLocation string
	// Selection says what is archived.
	Selection selection.Spec
	// AllVersions archives every served version (EnableAPIGroupVersions).
	AllVersions bool
	// ItemActions are the actions of plugins that objects are shown to, after the
	// built-in ones and in this order.
	ItemActions []itemplugin.Spec
	// Start is when the backup began.
	Start time.Time
	// OperationTimeout is how long operations may take of which the spec says nothing.
	OperationTimeout time.Duration
	// Outputs are what the PreBackup actions answered, by action.
	Outputs map[string]map[string]string
	// Warnings come from before the archive, for example ignored failures.
	Warnings []string
	// Progress, if set, is told how far the archive is.
	Progress func(total, done int)
	// Attempt is how often the archive was begun, with this time, from 1 on. Finalize
	// completes what the same attempt has archived.
	Attempt int32
	// OnOperationStarted records an operation that an item action started; see backup.Request.
	OnOperationStarted func(ctx context.Context, op backup.Operation) error
}

// FormatVersion is the version of the archives that are written.
const FormatVersion = archive.FormatVersion

// IsNameTaken reports whether an error means that the name belongs to another backup.
func IsNameTaken(err error) bool {
	var taken *backupstore.TakenError
	return errors.As(err, &taken)
}

// Result is what became of a backup.
type Result struct {
	Items, Warnings, Errors int
	// Bytes is the size of the archive; 0 if an earlier attempt had made it.
	Bytes int64
	// Completed is when the outcome was known.
	Completed time.Time
	// Labels are what item actions want to be added to the Backup. They are in the
	// stored manifests already, if there are any. It has none of the Backup's own keys.
	Labels map[string]string
	// MissingNamespaces were included by name and do not exist; each is an error.
	MissingNamespaces []string
	// Operations is how many operations item actions started that have to end before
	// Finalize makes this a backup; 0 of one that is complete.
	Operations int
}

// Engine writes the archive of a selection.
type Engine interface {
	WriteArchive(ctx context.Context, req backup.ArchiveRequest, w io.Writer) (backup.ArchiveResult, error)
}

// Runner carries out backups. It is safe for concurrent use.
type Runner struct {
	Engine Engine
	Logs   *runlog.Store
	Now    func() time.Time
	// Scratch is where Finalize keeps what operations left behind until it is in the
	// archive, the system's directory for temporary files by default. Nothing stays there.
	Scratch *scratch.Dir
	// Limits of archives, also of those that Engine writes.
	Limits archive.Limits
}

// CheckClaim reports whether Claim would succeed, and writes nothing.
func (j *Runner) CheckClaim(ctx context.Context, store *backupstore.Store, req Request) error {
	return store.CheckClaim(ctx, req.Name, req.UID)
}

// Claim takes the name of the backup in the store for its UID.
func (j *Runner) Claim(ctx context.Context, store *backupstore.Store, req Request) error {
	claim := backupstore.Claim{BackupUID: req.UID, Namespace: req.Namespace, Name: req.Name, Created: j.Now()}
	return store.Claim(ctx, req.Name, claim)
}

// Release gives the name back that a run claimed which then never began. It does
// nothing if the run does not hold the name.
func (j *Runner) Release(ctx context.Context, store *backupstore.Store, req Request) error {
	return store.Release(ctx, req.Name, req.UID)
}

// maxArchiveTries is how often the archive is made before a process that keeps overwriting it
// makes the run fail.
const maxArchiveTries = 3

// Archive makes the backup. With an error nothing usable is stored, and operations that
// actions have started are of no use. A Result with Operations says that the archive is
// stored, and is no backup until Finalize was called when they have ended.
func (j *Runner) Archive(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	var started atomic.Bool
	if record := req.OnOperationStarted; record != nil {
		req.OnOperationStarted = func(ctx context.Context, op backup.Operation) error {
			started.Store(true)
			return record(ctx, op)
		}
	}
	for try := 1; ; try++ {
		result, err := j.archiveOnce(ctx, store, req)
		if !errors.Is(err, backupstore.ErrOverwritten) || started.Load() || try == maxArchiveTries {
			return result, err
		}
		log.Error(err, "Creating the archive again")
	}
}

// archiveOnce is one attempt of Archive.
func (j *Runner) archiveOnce(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	attempt, done, err := j.beginAttempt(ctx, store, req)
	if attempt == nil {
		return done, err
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Archiving objects", "backup", req.Namespace+"/"+req.Name)
	made, err := j.storeContents(ctx, attempt, req)
	if err != nil {
		log.Error(err, "Archiving failed")
		return Result{}, err
	}
	if made.Operations > 0 {
		return j.storePendingBackup(ctx, attempt, req, made)
	}
	if req.Attempt > 1 { // an earlier attempt may have had operations
		if err := attempt.RemoveDraft(ctx); err != nil {
			log.Error(err, "Removing the draft of the backup failed; it may use space")
		}
	}
	result, err := j.storeAndCommit(ctx, attempt, req, made, nil)
	if err != nil {
		return j.resultIfCommitted(ctx, store, req, err)
	}
	return result, nil
}

// errNotCommitted means that no earlier attempt had succeeded.
var errNotCommitted = errors.New("the backup was not made")

// beginAttempt takes the next attempt, or returns the result of one that had already succeeded.
func (j *Runner) beginAttempt(ctx context.Context, store *backupstore.Store, req Request) (*backupstore.Attempt, Result, error) {
	attempt, err := store.BeginAttempt(ctx, req.Name, req.UID)
	if errors.Is(err, backupstore.ErrCommitted) {
		done, err := readCommittedResult(ctx, store, req)
		return nil, done, err
	}
	if err != nil {
		return nil, Result{}, fmt.Errorf("looking for an earlier attempt: %w", err)
	}
	return attempt, Result{}, nil
}

// FindCommitted returns the result of an attempt that had already succeeded, and an
// error if there is none. Attempts that go on in another process cannot succeed after
// that.
func (j *Runner) FindCommitted(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	attempt, done, err := j.beginAttempt(ctx, store, req)
	if attempt != nil || errors.Is(err, backupstore.ErrNotClaimed) {
		return Result{}, errNotCommitted
	}
	return done, err
}

// resultForDraft returns the result of a backup, and what is stored of it then: with the
// warnings that belong to the run.
func (j *Runner) resultForDraft(req Request, d draft) (Result, draft) {
	labels, warnings := labelsToAdd(req.Labels, d.Labels)
	d.addRunWarnings(slices.Concat(req.Warnings, warnings))
	return Result{
		Items: d.Items, Warnings: d.Warnings, Errors: d.Errors, Bytes: d.Contents.Size, Completed: j.Now(), Labels: labels,
		MissingNamespaces: d.MissingNamespaces,
	}, d
}
