// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// maxStoredLogBytes is the maximum size of the log of a run that several operators wrote,
// each up to the limit of one.
const maxStoredLogBytes = 8 * runlog.MaxFileBytes

// storeRunLog stores one stream of the run's log; false if it is empty.
func (j *Runner) storeRunLog(ctx context.Context, store *storage.Store, req RunRequest, stream runlog.Stream, file storage.RestoreFile) (bool, error) {
	log, err := j.Logs.OpenCompressed(req.UID, stream)
	if err != nil || log == nil {
		return false, err
	}
	defer func() { _ = log.Close() }() // opened only for reading
	_, err = store.PutRestoreFile(ctx, req.Name, file, log)
	return err == nil, err
}

// storeCompleteLog stores the log of a run that was stored before. An operator that took
// over, with another scratch directory, has only the lines since then: it appends them to
// those in the store.
func (j *Runner) storeCompleteLog(ctx context.Context, store *storage.Store, req RunRequest) (err error) {
	before, err := j.spoolStoredLog(ctx, store, req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	lacks, err := j.isMissingStoredLines(req, before)
	if err != nil {
		return err
	}
	if !lacks {
		_, err := j.storeRunLog(ctx, store, req, runlog.Main, storage.RestoreLogs)
		return err
	}
	since, err := j.Logs.OpenCompressed(req.UID, runlog.Main)
	if err != nil || since == nil {
		return err
	}
	defer func() { _ = since.Close() }() // opened only for reading
	if _, err := before.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the log that was stored before: %w", err)
	}
	// Both are complete gzip files, which may be concatenated.
	_, err = store.PutRestoreFile(ctx, req.Name, storage.RestoreLogs, io.MultiReader(before, since))
	return err
}

// spoolStoredLog spools the log in the store, which is read again while it is replaced. The
// file is empty if there is no log, or if it exceeds the limit.
func (j *Runner) spoolStoredLog(ctx context.Context, store *storage.Store, req RunRequest) (_ *os.File, err error) {
	file, err := os.CreateTemp(j.Scratch.Path, ".grapnel-log-*")
	if err != nil {
		return nil, fmt.Errorf("spooling the log that was stored before: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("spooling the log that was stored before: %w", err)
	}
	stored, err := store.GetRestoreFile(ctx, req.Name, storage.RestoreLogs)
	if errors.Is(err, objectstore.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = stored.Close() }() // opened only for reading
	n, err := io.Copy(file, io.LimitReader(stored, runlog.MaxFileBytes+1))
	if err == nil && n > runlog.MaxFileBytes {
		err = file.Truncate(0)
	}
	if err != nil {
		return nil, fmt.Errorf("spooling the log that was stored before: %w", err)
	}
	return file, nil
}

// isMissingStoredLines reports whether the run's log does not begin with the full content
// of a compressed file. A file that cannot be read has nothing to keep.
func (j *Runner) isMissingStoredLines(req RunRequest, compressed io.ReadSeeker) (bool, error) {
	if _, err := compressed.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("reading the log that was stored before: %w", err)
	}
	stored, err := gzip.NewReader(compressed)
	if err != nil {
		return false, nil
	}
	log, err := j.Logs.OpenReader(req.UID, runlog.Main)
	if err != nil || log == nil {
		return log == nil, err
	}
	defer func() { _ = log.Close() }() // opened only for reading
	compared := comparingWriter{expected: log}
	n, err := io.Copy(&compared, io.LimitReader(stored, maxStoredLogBytes+1))
	return compared.differs && err == nil && n <= maxStoredLogBytes, nil
}

// comparingWriter is a Writer that compares its input with the content of a reader.
type comparingWriter struct {
	expected io.Reader
	differs  bool
}

// Write never fails: unreadable content counts as different.
func (c *comparingWriter) Write(data []byte) (int, error) {
	other := make([]byte, len(data))
	n, _ := io.ReadFull(c.expected, other)
	c.differs = c.differs || !bytes.Equal(data, other[:n])
	return len(data), nil
}
