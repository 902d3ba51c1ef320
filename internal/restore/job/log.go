// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// maxStoredLogBytes is how many bytes of lines the log of a run may have that several
// operators wrote, each up to the limit of one.
const maxStoredLogBytes = 8 * runlog.MaxFileBytes

// storeRunLog stores one stream of the run's log; false if it is empty.
func (j *Runner) storeRunLog(ctx context.Context, store *backupstore.Store, req Request, stream runlog.Stream, file backupstore.RestoreFile) (bool, error) {
	log, err := j.Logs.OpenCompressed(req.UID, stream)
	if err != nil || log == nil {
		return false, err
	}
	defer func() { _ = log.Close() }() // it was only read
	_, err = store.PutRestoreFile(ctx, req.Name, file, log)
	return err == nil, err
}

// storeCompleteLog stores the log of a run that had stored it before. An operator that
// took over, with another scratch directory, has only the lines since then: they follow
// those in the store.
func (j *Runner) storeCompleteLog(ctx context.Context, store *backupstore.Store, req Request) (err error) {
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
		_, err := j.storeRunLog(ctx, store, req, runlog.Main, backupstore.RestoreLogs)
		return err
	}
	since, err := j.Logs.OpenCompressed(req.UID, runlog.Main)
	if err != nil || since == nil {
		return err
	}
	defer func() { _ = since.Close() }() // it was only read
	if _, err := before.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the log that was stored before: %w", err)
	}
	// Both are whole files of gzip, which may follow each other.
	_, err = store.PutRestoreFile(ctx, req.Name, backupstore.RestoreLogs, io.MultiReader(before, since))
	return err
}

// spoolStoredLog spools the log that is in the store: it is read again while it is replaced.
// The file is empty if there is none, or one that is larger than any.
func (j *Runner) spoolStoredLog(ctx context.Context, store *backupstore.Store, req Request) (_ *os.File, err error) {
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
	stored, err := store.GetRestoreFile(ctx, req.Name, backupstore.RestoreLogs)
	if errors.Is(err, objectstore.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = stored.Close() }() // it was only read
	n, err := io.Copy(file, io.LimitReader(stored, runlog.MaxFileBytes+1))
	if err == nil && n > runlog.MaxFileBytes {
		err = file.Truncate(0)
	}
	if err != nil {
		return nil, fmt.Errorf("spooling the log that was stored before: %w", err)
	}
	return file, nil
}

// isMissingStoredLines reports whether the run's log does not begin with all that a compressed file
// has. One that cannot be read has nothing that could be kept.
func (j *Runner) isMissingStoredLines(req Request, compressed io.ReadSeeker) (bool, error) {
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
	defer func() { _ = log.Close() }() // it was only read
	compared := comparingWriter{expected: log}
	n, err := io.Copy(&compared, io.LimitReader(stored, maxStoredLogBytes+1))
	return compared.differs && err == nil && n <= maxStoredLogBytes, nil
}

// comparingWriter is a Writer that compares what it is given with what a reader has.
type comparingWriter struct {
	expected io.Reader
	differs  bool
}

// Write never fails: what cannot be read is not the same.
func (c *comparingWriter) Write(data []byte) (int, error) {
	other := make([]byte, len(data))
	n, _ := io.ReadFull(c.expected, other)
	c.differs = c.differs || !bytes.Equal(data, other[:n])
	return len(data), nil
}
