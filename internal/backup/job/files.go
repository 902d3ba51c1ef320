// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// lookTimeout bounds the second look after a commit that failed.
const lookTimeout = 30 * time.Second

// complete stores what belongs to the backup besides its archive, and the manifests
// last. Ended are its operations.
func (j *Job) complete(ctx context.Context, store *backupstore.Store, req Request, d draft, ended []velero.Operation) (Result, error) {
	result, outcome := j.outcome(req, d)
	logr.FromContextOrDiscard(ctx).Info("Storing results", "items", result.Items, "warnings", result.Warnings, "errors", result.Errors)
	digests, err := j.files(ctx, store, req, outcome, ended)
	if err != nil {
		return Result{}, err
	}
	digests[backupstore.Contents] = d.Contents
	manifest, err := veleroBackup(req, result, max(d.Operations, len(ended)), ended)
	if err != nil {
		return Result{}, err
	}
	object, err := withLabels(req.Object, result.Labels)
	if err != nil {
		return Result{}, err
	}
	return result, commit(ctx, store, req.Name, backupstore.Manifest{
		VeleroBackup: manifest,
		Grapnel:      backupstore.GrapnelManifest{BackupUID: req.UID, Files: digests, Outputs: req.Outputs, Backup: object},
	})
}

// commit writes the manifests.
func commit(ctx context.Context, store *backupstore.Store, name string, manifest backupstore.Manifest) error {
	err := store.Commit(ctx, name, manifest)
	if err == nil {
		return nil
	}
	// The manifest may be there all the same: its answer was lost, or the run was
	// cancelled while it was written.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	if committed, lookErr := store.Committed(late, name, manifest.Grapnel.BackupUID); lookErr == nil && committed {
		return nil
	}
	return fmt.Errorf("committing the backup: %w", err)
}

// files stores what belongs to the backup besides its archive; the log last, so
// that it is as complete as it can be.
func (j *Job) files(
	ctx context.Context, store *backupstore.Store, req Request, d draft, ended []velero.Operation,
) (map[backupstore.File]backupstore.Digest, error) {
	none := []struct{}{}
	contents := []struct {
		file  backupstore.File
		value any
	}{
		{backupstore.Results, report{Results: d.Results, Actions: d.Actions}},
		{backupstore.ResourceList, d.ResourceList},
		{backupstore.VolumeInfo, none},
		{backupstore.ItemOperations, velero.BackupOperations(req.Name, types.UID(req.UID), ended)},
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
