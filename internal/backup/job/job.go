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
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	itemplugin "github.com/grapnel-dev/grapnel/internal/itemaction/plugin"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
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
	// Outputs are what the PreBackup actions answered, by action.
	Outputs map[string]map[string]string
	// Warnings come from before the archive, for example ignored failures.
	Warnings []string
	// Progress, if set, is told how far the archive is.
	Progress func(total, done int)
}

// FormatVersion is the version of the archives that are written.
const FormatVersion = archive.FormatVersion

// IsTaken says whether an error means that the name belongs to another backup.
func IsTaken(err error) bool {
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
	// stored manifests already. It has none of the Backup's own keys.
	Labels map[string]string
}

// Engine writes the archive of a selection.
type Engine interface {
	Run(ctx context.Context, req backup.Request, w io.Writer) (backup.Result, error)
}

// Job carries out backups. It is safe for concurrent use.
type Job struct {
	Engine Engine
	Logs   *runlog.Book
	Now    func() time.Time
}

// Check says whether Claim would succeed, and writes nothing.
func (j *Job) Check(ctx context.Context, store *backupstore.Store, req Request) error {
	return store.Check(ctx, req.Name, req.UID)
}

// Claim takes the name of the backup in the store for its UID.
func (j *Job) Claim(ctx context.Context, store *backupstore.Store, req Request) error {
	claim := backupstore.Claim{BackupUID: req.UID, Namespace: req.Namespace, Name: req.Name, Created: j.Now()}
	return store.Claim(ctx, req.Name, claim)
}

// Release gives the name back that a run claimed which then never began. It does
// nothing if the run does not hold the name.
func (j *Job) Release(ctx context.Context, store *backupstore.Store, req Request) error {
	return store.Release(ctx, req.Name, req.UID)
}

// Archive makes the backup. With an error nothing usable is stored.
func (j *Job) Archive(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	if done, err := j.Earlier(ctx, store, req); !errors.Is(err, errNotMade) {
		return done, err
	}
	log := j.Logs.Logger(req.UID, runlog.Main)
	ctx = logr.NewContext(ctx, log)
	log.Info("Archiving objects", "backup", req.Namespace+"/"+req.Name)
	made, digest, err := j.contents(ctx, store, req)
	if err != nil {
		log.Error(err, "Archiving failed")
		return Result{}, err
	}
	labels, warnings := added(req.Labels, made.Labels)
	made.Results = withWarnings(made.Results, slices.Concat(req.Warnings, warnings))
	result := Result{
		Items: made.Items, Warnings: made.Results.WarningCount, Errors: made.Results.ErrorCount,
		Bytes: digest.Size, Completed: j.Now(), Labels: labels,
	}
	log.Info("Storing results", "items", result.Items, "warnings", result.Warnings, "errors", result.Errors)
	digests, err := j.files(ctx, store, req, made)
	if err != nil {
		return Result{}, err
	}
	digests[backupstore.Contents] = digest
	velero, err := veleroBackup(req, result)
	if err != nil {
		return Result{}, err
	}
	object, err := withLabels(req.Object, result.Labels)
	if err != nil {
		return Result{}, err
	}
	err = store.Commit(ctx, req.Name, backupstore.Manifest{
		VeleroBackup: velero,
		Grapnel: backupstore.GrapnelManifest{
			BackupUID: req.UID, Files: digests, Outputs: req.Outputs, Backup: object,
		},
	})
	if err == nil {
		return result, nil
	}
	// The manifest may be there all the same: its answer was lost, or the run was
	// cancelled while it was written.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	if committed, lookErr := store.Committed(late, req.Name, req.UID); lookErr == nil && committed {
		return result, nil
	}
	return Result{}, fmt.Errorf("committing the backup: %w", err)
}

// lookTimeout bounds the second look after a commit that failed.
const lookTimeout = 30 * time.Second

// errNotMade means that no earlier attempt had succeeded.
var errNotMade = errors.New("the backup was not made")

// Earlier returns the result of an attempt that had already succeeded, and an
// error if there is none. It writes nothing.
func (j *Job) Earlier(ctx context.Context, store *backupstore.Store, req Request) (Result, error) {
	done, err := store.Committed(ctx, req.Name, req.UID)
	if err != nil {
		return Result{}, fmt.Errorf("looking for an earlier attempt: %w", err)
	}
	if !done {
		return Result{}, errNotMade
	}
	return earlier(ctx, store, req)
}

// contents streams the engine's archive into the store.
func (j *Job) contents(ctx context.Context, store *backupstore.Store, req Request) (backup.Result, backupstore.Digest, error) {
	actions, err := j.actions(req)
	if err != nil {
		return backup.Result{}, backupstore.Digest{}, err
	}
	reader, writer := io.Pipe()
	var made backup.Result
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		made, err = j.Engine.Run(ctx, backup.Request{
			Selection: req.Selection, AllVersions: req.AllVersions, StartTime: req.Start, Progress: req.Progress,
			Actions: actions,
		}, writer)
		_ = writer.CloseWithError(err) // always nil
		return err
	})
	var digest backupstore.Digest
	group.Go(func() error {
		var err error
		digest, err = store.PutContents(ctx, req.Name, req.UID, reader)
		_ = reader.CloseWithError(err) // always nil
		if err != nil {
			return fmt.Errorf("storing the archive: %w", err)
		}
		return nil
	})
	err = group.Wait()
	return made, digest, err
}

func withWarnings(r results.Results, warnings []string) results.Results {
	r.Warnings.Velero = append(r.Warnings.Velero, warnings...)
	r.WarningCount += len(warnings)
	return r
}

// files stores what belongs to the backup besides its archive; the log last, so
// that it is as complete as it can be.
func (j *Job) files(ctx context.Context, store *backupstore.Store, req Request, made backup.Result) (map[backupstore.File]backupstore.Digest, error) {
	none := []struct{}{}
	contents := []struct {
		file  backupstore.File
		value any
	}{
		{backupstore.Results, report{Results: made.Results, Actions: made.Actions}},
		{backupstore.ResourceList, made.ResourceList},
		{backupstore.VolumeInfo, none},
		{backupstore.ItemOperations, none},
		{backupstore.PodVolumeBackups, none},
		{backupstore.VolumeSnapshots, none},
	}
	digests := make([]backupstore.Digest, len(contents))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, c := range contents {
		group.Go(func() error {
			var err error
			digests[i], err = store.PutJSON(groupCtx, req.Name, req.UID, c.file, c.value)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("storing the files of the backup: %w", err)
	}
	byFile := map[backupstore.File]backupstore.Digest{}
	for i, c := range contents {
		byFile[c.file] = digests[i]
	}
	logged, err := j.storeLog(ctx, store, req, runlog.Main, backupstore.Logs)
	if err != nil {
		return nil, err
	}
	if logged != nil {
		byFile[backupstore.Logs] = *logged
	}
	return byFile, nil
}

// storeLog stores one stream of the run's log, compressed; nil if it is empty.
func (j *Job) storeLog(ctx context.Context, store *backupstore.Store, req Request, stream runlog.Stream, file backupstore.File) (*backupstore.Digest, error) {
	log, err := j.Logs.Compressed(req.UID, stream)
	if err != nil || log == nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // it was only read
	digest, err := store.PutFile(ctx, req.Name, req.UID, file, log)
	if err != nil {
		return nil, fmt.Errorf("storing a log: %w", err)
	}
	return &digest, nil
}

// Abandon ends a run without a manifest: its log and one line that says why are
// kept, everything else is removed, and the name is free again.
func (j *Job) Abandon(ctx context.Context, store *backupstore.Store, req Request, reason string) error {
	why := results.Results{Errors: results.Messages{Velero: []string{reason}}}
	if _, err := store.PutJSON(ctx, req.Name, req.UID, backupstore.Results, why); err != nil {
		if errors.Is(err, backupstore.ErrNotClaimed) {
			return nil // an earlier call released it already
		}
		return fmt.Errorf("storing the reason: %w", err)
	}
	// It also makes sure that there is a log, which the status names: nothing may
	// have been logged before, or it was lost with the folder of an earlier operator.
	j.Logs.Logger(req.UID, runlog.Main).Info("The backup ended without an archive", "backup", req.Namespace+"/"+req.Name, "reason", reason)
	if _, err := j.storeLog(ctx, store, req, runlog.Main, backupstore.Logs); err != nil {
		return err
	}
	if err := store.Discard(ctx, req.Name, req.UID); err != nil {
		return fmt.Errorf("removing what is left of the backup: %w", err)
	}
	if err := store.Release(ctx, req.Name, req.UID); err != nil {
		return fmt.Errorf("giving the name back: %w", err)
	}
	return nil
}

// StorePostLog stores what the PostBackup actions logged. It returns false if
// they logged nothing.
func (j *Job) StorePostLog(ctx context.Context, store *backupstore.Store, req Request) (bool, error) {
	digest, err := j.storeLog(ctx, store, req, runlog.PostActions, backupstore.PostLogs)
	return digest != nil, err
}
