// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// storeContents streams the engine's archive to the store, and returns the state after
// that.
func (j *Runner) storeContents(ctx context.Context, attempt *storage.Attempt, req Request) (draft, error) {
	actions, err := j.newItemActions(req, velero.PhaseInProgress)
	if err != nil {
		return draft{}, err
	}
	var made ArchiveResult
	var digest storage.Digest
	err = pipeConcurrently(ctx, func(ctx context.Context, w io.Writer) error {
		var err error
		made, err = j.Engine.WriteArchive(ctx, ArchiveRequest{
			Selection: req.Selection, AllVersions: req.AllVersions, StartTime: req.Start, Progress: req.Progress,
			Actions: actions, OnOperationStarted: req.OnOperationStarted,
		}, w)
		return err
	}, func(ctx context.Context, r io.Reader) error {
		var err error
		if digest, err = attempt.PutContents(ctx, r); err != nil {
			return fmt.Errorf("storing the archive: %w", err)
		}
		return nil
	})
	d := newDraft(req, made, digest)
	d.ETag = attempt.ETag(storage.Contents)
	return d, err
}

// pipeConcurrently runs a function that writes and a function that reads concurrently. Each
// ends when the other fails, and both have ended when it returns. A panic becomes an error.
func pipeConcurrently(ctx context.Context, write func(context.Context, io.Writer) error, read func(context.Context, io.Reader) error) error {
	reader, writer := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer func() { _ = writer.CloseWithError(err) }() // always nil
		defer panics.Recover(&err)
		return write(ctx, writer)
	})
	group.Go(func() (err error) {
		defer func() { _ = reader.CloseWithError(err) }() // always nil
		defer panics.Recover(&err)
		return read(ctx, reader)
	})
	return group.Wait()
}
