// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// commitCheckTimeout bounds the check after a failed commit when the run was ended.
const commitCheckTimeout = 30 * time.Second

// storeAndCommit stores the files of the backup other than the archive, and the manifests
// last. Ended are its operations.
func (j *Runner) storeAndCommit(ctx context.Context, attempt *storage.Attempt, req Request, d draft, ended []velero.Operation) (Result, error) {
	result, outcome := j.resultForDraft(req, d)
	logr.FromContextOrDiscard(ctx).Info("Storing results", "items", result.Items, "warnings", result.Warnings, "errors", result.Errors)
	digests, err := j.storeBackupFiles(ctx, attempt, req, outcome, ended)
	if err != nil {
		return Result{}, err
	}
	digests[storage.Contents] = d.Contents
	manifest, err := encodeVeleroManifest(req, result, max(d.Operations, len(ended)), ended)
	if err != nil {
		return Result{}, err
	}
	object, err := objectWithLabels(req.Object, result.Labels)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("committing the backup: %w", err)
	}
	if err := attempt.Commit(ctx, storage.Manifest{
		VeleroBackup: manifest,
		Grapnel: storage.GrapnelManifest{
			BackupUID: req.UID, Files: digests, ETags: map[storage.File]string{storage.Contents: d.ETag},
			Outputs: req.Outputs, Backup: object,
		},
	}); err != nil {
		return Result{}, fmt.Errorf("committing the backup: %w", err)
	}
	return result, nil
}

// resultIfCommitted returns the result of the stored backup after an attempt that failed
// with err. The manifest may exist nevertheless: its reply was lost, or the run was
// canceled while it was written, or another process was faster. The counts are those of the
// stored backup.
func (j *Runner) resultIfCommitted(ctx context.Context, store *storage.Store, req Request, err error) (Result, error) {
	late, cancel := contextWithGrace(ctx, commitCheckTimeout)
	defer cancel()
	if committed, lookErr := store.IsCommitted(late, req.Name, req.UID); lookErr != nil || !committed {
		return Result{}, err
	}
	stored, lookErr := readCommittedResult(late, store, req)
	_, grapnel, manifestErr := store.ReadManifest(late, req.Name)
	if lookErr != nil || manifestErr != nil || grapnel == nil {
		return Result{}, err
	}
	stored.Bytes = grapnel.Files[storage.Contents].Size
	return stored, nil
}

// contextWithGrace returns a context that ends by a grace period after another one.
func contextWithGrace(ctx context.Context, by time.Duration) (context.Context, func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel()
	}
}

// storeBackupFiles stores the files of the backup other than the archive. The log is last,
// so that it is as complete as possible.
func (j *Runner) storeBackupFiles(
	ctx context.Context, attempt *storage.Attempt, req Request, d draft, ended []velero.Operation,
) (map[storage.File]storage.Digest, error) {
	none := []struct{}{}
	contents := []struct {
		file  storage.File
		value any
	}{
		{storage.Results, resultsFile{Results: d.Results, Actions: d.Actions}},
		{storage.ResourceList, d.ResourceList},
		{storage.VolumeInfo, none},
		{storage.ItemOperations, velero.ToBackupOperations(req.Name, types.UID(req.UID), ended)},
		{storage.PodVolumeBackups, none},
		{storage.VolumeSnapshots, none},
	}
	digests := make([]storage.Digest, len(contents))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, c := range contents {
		group.Go(func() (err error) {
			defer panics.Recover(&err)
			digests[i], err = attempt.PutJSON(groupCtx, c.file, c.value)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("storing the files of the backup: %w", err)
	}
	byFile := map[storage.File]storage.Digest{}
	for i, c := range contents {
		byFile[c.file] = digests[i]
	}
	logged, err := j.storeRunLog(req, runlog.Main, newLogUploader(ctx, attempt))
	if err != nil {
		return nil, err
	}
	if logged != nil {
		byFile[storage.Logs] = *logged
	}
	return byFile, nil
}

// newLogUploader returns a function that stores the log of an attempt.
func newLogUploader(ctx context.Context, attempt *storage.Attempt) func(io.Reader) (storage.Digest, error) {
	return func(r io.Reader) (storage.Digest, error) { return attempt.PutFile(ctx, storage.Logs, r) }
}

// storeRunLog passes one stream of the run's log to put, compressed; nil if it is empty.
func (j *Runner) storeRunLog(req Request, stream runlog.Stream, put func(io.Reader) (storage.Digest, error)) (*storage.Digest, error) {
	log, err := j.Logs.OpenCompressed(req.UID, stream)
	if err != nil || log == nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // opened only for reading
	digest, err := put(log)
	if err != nil {
		return nil, fmt.Errorf("storing a log: %w", err)
	}
	return &digest, nil
}
