// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
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
			Actions: actions, OnOperationStarted: req.OnOperationStarted, RequireCaptured: req.RequireCaptured,
			RunsPodHooks: req.RunsPodHooks,
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
// ends when the other fails, and both have ended when it returns. The error is that of the one that
// failed, not what the other made of it. A panic becomes an error.
func pipeConcurrently(ctx context.Context, write func(context.Context, io.Writer) error, read func(context.Context, io.Reader) error) error {
	reader, writer := io.Pipe()
	var writeErr, readErr error
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		writeErr = runRecovered(func() error { return write(ctx, writer) })
		_ = writer.CloseWithError(writeErr) // always nil
		return writeErr
	})
	group.Go(func() error {
		readErr = runRecovered(func() error { return read(ctx, reader) })
		_ = reader.CloseWithError(readErr) // always nil
		return readErr
	})
	first := group.Wait()
	return originalError(first, writeErr, readErr)
}

// originalError returns the error of the end of a pipe that failed. The other end may return before
// it, with an error that wraps the same one. If they failed independently, the first one counts.
func originalError(first, writeErr, readErr error) error {
	switch {
	case writeErr != nil && errors.Is(readErr, writeErr):
		return writeErr
	case readErr != nil && errors.Is(writeErr, readErr):
		return readErr
	}
	return first
}

func runRecovered(work func() error) (err error) {
	defer panics.Recover(&err)
	return work()
}
