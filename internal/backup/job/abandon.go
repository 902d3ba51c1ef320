// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

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
