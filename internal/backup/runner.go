// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
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
	// Selection selects the archived objects.
	Selection selection.Spec
	// AllVersions archives every served version (EnableAPIGroupVersions).
	AllVersions bool
	// ItemActions are the actions of plugins, which are called after the built-in ones and
	// in this order.
	ItemActions []pluginclient.BackupItemActionSpec
	// Start is when the backup began.
	Start time.Time
	// OperationTimeout is the timeout of operations if the spec has none.
	OperationTimeout time.Duration
	// Outputs are the answers of the PreBackup actions, by action.
	Outputs map[string]map[string]string
	// Warnings are from before the archive, for example ignored failures.
	Warnings []string
	// Progress, if set, is called with the progress of the archive.
	Progress func(total, done int)
	// Attempt is the number of the archive attempt, starting at 1. Finalize completes the
	// archive of the same attempt.
	Attempt int32
	// RequireCaptured makes claims without data errors.
	RequireCaptured bool
	// RunsPodHooks reports that an action runs the commands that Velero's annotations on pods have.
	RunsPodHooks bool
	// OnOperationStarted records an operation that an item action started; see
	// backup.ArchiveRequest.
	OnOperationStarted func(ctx context.Context, op itemaction.Operation) error
}

// FormatVersion is the version of new archives.
const FormatVersion = archive.FormatVersion

// IsNameTaken reports whether an error means that the name belongs to another backup.
func IsNameTaken(err error) bool {
	var taken *storage.TakenError
	return errors.As(err, &taken)
}

// logRun identifies the log of the backup.
func (r *Request) logRun() runlog.Run {
	return runlog.Run{UID: r.UID, Kind: "Backup", Namespace: r.Namespace, Name: r.Name}
}

// Result is the result of a backup.
type Result struct {
	Items, Warnings, Errors int
	// Bytes is the size of the archive; 0 if an earlier attempt stored it.
	Bytes int64
	// Completed is when the outcome was determined.
	Completed time.Time
	// Labels are those that item actions add to the Backup. The stored manifests, if any,
	// already contain them. They do not include keys of the Backup's own labels.
	Labels map[string]string
	// MissingNamespaces are namespaces that were included by name and do not exist; each is
	// an error.
	MissingNamespaces []string
	// Problems are the warnings and errors.
	Problems results.Results
	// Volumes counts the claims. It is zero if an earlier attempt had committed the backup.
	Volumes VolumeCounts
	// Operations is the number of operations that must end before Finalize can commit the
	// backup; 0 for a complete backup.
	Operations int
}

// ArchiveWriter writes the archive of a selection.
type ArchiveWriter interface {
	WriteArchive(ctx context.Context, req ArchiveRequest, w io.Writer) (ArchiveResult, error)
}

// Runner carries out backups. It is safe for concurrent use.
type Runner struct {
	Engine ArchiveWriter
	Logs   *runlog.Store
	Now    func() time.Time
	// Scratch is where Finalize stores the results of operations until they are in the
	// archive. The default is the system's directory for temporary files. No file remains
	// there.
	Scratch *scratch.Dir
	// Limits of archives, also of those that Engine writes.
	Limits archive.Limits
}

// CheckClaim checks whether Claim would succeed, without writing.
func (j *Runner) CheckClaim(ctx context.Context, store *storage.Store, req Request) error {
	return store.CheckClaim(ctx, req.Name, req.UID)
}

// Claim takes the name of the backup in the store for its UID.
func (j *Runner) Claim(ctx context.Context, store *storage.Store, req Request) error {
	claim := storage.Claim{BackupUID: req.UID, Namespace: req.Namespace, Name: req.Name, Created: j.Now()}
	return store.Claim(ctx, req.Name, claim)
}

// Release releases the name of a run that claimed it and never started. It does nothing if
// the run does not hold the name.
func (j *Runner) Release(ctx context.Context, store *storage.Store, req Request) error {
	return store.Release(ctx, req.Name, req.UID)
}

// maxArchiveTries is how often the archive is written before the run fails because another
// process keeps overwriting it.
const maxArchiveTries = 3

// Archive writes the backup. After an error nothing usable is stored, and operations that
// actions have started are not needed. A Result with Operations means that the archive is
// stored, but is not a backup until Finalize is called after they have ended.
func (j *Runner) Archive(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	log := j.Logs.Logger(req.logRun(), runlog.Main)
	ctx = logr.NewContext(ctx, log)
	var started atomic.Bool
	if record := req.OnOperationStarted; record != nil {
		req.OnOperationStarted = func(ctx context.Context, op itemaction.Operation) error {
			started.Store(true)
			return record(ctx, op)
		}
	}
	for try := 1; ; try++ {
		result, err := j.archiveOnce(ctx, store, req)
		if !errors.Is(err, storage.ErrOverwritten) || started.Load() || try == maxArchiveTries {
			return result, err
		}
		log.Error(err, "Creating the archive again")
	}
}

// archiveOnce is one attempt of Archive.
func (j *Runner) archiveOnce(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	attempt, done, err := j.beginAttempt(ctx, store, req)
	if attempt == nil {
		return done, err
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Archiving objects")
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

// errNotCommitted means that no earlier attempt has succeeded.
var errNotCommitted = errors.New("the backup is not committed")

// beginAttempt begins the next attempt, or returns the result of one that has already
// succeeded.
func (j *Runner) beginAttempt(ctx context.Context, store *storage.Store, req Request) (*storage.Attempt, Result, error) {
	attempt, err := store.BeginAttempt(ctx, req.Name, req.UID)
	if errors.Is(err, storage.ErrCommitted) {
		done, err := readCommittedResult(ctx, store, req)
		return nil, done, err
	}
	if err != nil {
		return nil, Result{}, fmt.Errorf("looking for an earlier attempt: %w", err)
	}
	return attempt, Result{}, nil
}

// FindCommitted returns the result of an attempt that has already succeeded, and an error
// if there is none. Attempts that continue in another process cannot succeed after that.
func (j *Runner) FindCommitted(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	attempt, done, err := j.beginAttempt(ctx, store, req)
	if attempt != nil || errors.Is(err, storage.ErrNotClaimed) {
		return Result{}, errNotCommitted
	}
	return done, err
}

// resultForDraft returns the result of a backup, and the draft with the warnings of the
// run.
func (j *Runner) resultForDraft(req Request, d draft) (Result, draft) {
	labels, warnings := labelsToAdd(req.Labels, d.Labels)
	d.addRunWarnings(results.ReasonPlanWarning, req.Warnings)
	d.addRunWarnings(results.ReasonItemActionWarning, warnings)
	return Result{
		Items: d.Items, Warnings: d.Warnings, Errors: d.Errors, Bytes: d.Contents.Size, Completed: j.Now(), Labels: labels,
		MissingNamespaces: d.MissingNamespaces, Volumes: d.Volumes,
		Problems: results.Results{Warnings: d.Results.Warnings, Errors: d.Results.Errors, Objects: d.Results.Objects},
	}, d
}
