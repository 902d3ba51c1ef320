// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Abandon ends a run without a manifest. It stores the log and a line with the reason,
// removes everything else, and releases the name. In a full store, it stores the log if
// there is space after the removal. A process that is still writing the backup finds that
// its attempt is over, and a manifest that it has written meanwhile is removed.
func (j *Runner) Abandon(ctx context.Context, store *storage.Store, req Request, reason string) error {
	err := store.EndAttempts(ctx, req.Name, req.UID)
	full := errors.Is(err, objectstore.ErrNoSpace)
	if full {
		if err := store.Discard(ctx, req.Name, req.UID); err != nil {
			return fmt.Errorf("removing the files of the backup: %w", err)
		}
		if err = store.EndAttempts(ctx, req.Name, req.UID); errors.Is(err, objectstore.ErrNoSpace) {
			err = nil // removing the claims also ends the attempts
		}
	}
	switch {
	case errors.Is(err, storage.ErrNotClaimed):
		return nil // an earlier call already released it
	case err != nil:
		return fmt.Errorf("ending the attempts to make the backup: %w", err)
	}
	if err := j.storeFailureReason(ctx, store, req, reason); err != nil && (!full || !errors.Is(err, objectstore.ErrNoSpace)) {
		return err
	}
	if err := store.Discard(ctx, req.Name, req.UID); err != nil {
		return fmt.Errorf("removing the files of the backup: %w", err)
	}
	if err := store.Release(ctx, req.Name, req.UID); err != nil {
		return fmt.Errorf("releasing the name: %w", err)
	}
	return nil
}

// storeFailureReason stores the reason why there is no backup, and the log of the run.
func (j *Runner) storeFailureReason(ctx context.Context, store *storage.Store, req Request, reason string) error {
	why := results.Results{Errors: results.Problems{{Reason: results.ReasonFailed, Message: reason}}}
	if _, err := store.PutJSON(ctx, req.Name, req.UID, storage.Results, why); err != nil {
		return fmt.Errorf("storing the reason: %w", err)
	}
	// This also ensures that there is a log, which the status names: the log may be empty,
	// or may have been lost with the directory of an earlier operator.
	j.Logs.Logger(req.logRun(), runlog.Main).Info("The backup ended without an archive", "reason", reason)
	if _, err := j.storeRunLog(req, runlog.Main, func(r io.Reader) (storage.Digest, error) {
		return store.PutFile(ctx, req.Name, req.UID, storage.Logs, r)
	}); err != nil {
		return err
	}
	return nil
}

// UploadPostActionLog stores the log of the PostBackup actions. It returns false if the log
// is empty.
func (j *Runner) UploadPostActionLog(ctx context.Context, store *storage.Store, req Request) (bool, error) {
	digest, err := j.storeRunLog(req, runlog.PostActions, func(r io.Reader) (storage.Digest, error) {
		return store.PutFile(ctx, req.Name, req.UID, storage.PostLogs, r)
	})
	return digest != nil, err
}
