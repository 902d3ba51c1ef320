// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// contents streams the engine's archive into the store, and returns what is known then.
func (j *Job) contents(ctx context.Context, store *backupstore.Store, req Request) (draft, error) {
	actions, err := j.actions(req, velero.PhaseInProgress)
	if err != nil {
		return draft{}, err
	}
	var made backup.Result
	var digest backupstore.Digest
	err = stream(ctx, func(ctx context.Context, w io.Writer) error {
		var err error
		made, err = j.Engine.Run(ctx, backup.Request{
			Selection: req.Selection, AllVersions: req.AllVersions, StartTime: req.Start, Progress: req.Progress,
			Actions: actions, Started: req.Started,
		}, w)
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		if digest, err = store.PutContents(ctx, req.Name, req.UID, r); err != nil {
			return fmt.Errorf("storing the archive: %w", err)
		}
		return nil
	})
	return draftOf(req, made, digest), err
}

// stream has one function read what another one writes, at the same time. Each ends when
// the other fails, and both have ended when it returns.
func stream(ctx context.Context, write func(context.Context, io.Writer) error, read func(context.Context, io.Reader) error) error {
	reader, writer := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := write(ctx, writer)
		_ = writer.CloseWithError(err) // always nil
		return err
	})
	group.Go(func() error {
		err := read(ctx, reader)
		_ = reader.CloseWithError(err) // always nil
		return err
	})
	return group.Wait()
}
