// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// maxResultsBytes bounds the results that are read back. They have at most
// results.MaxProblems warnings and as many errors.
const maxResultsBytes = 128 << 20

// ErrResultsUnreadable means that the store has no readable results of this restore.
var ErrResultsUnreadable = errors.New("what became of each object cannot be read back")

// readStoredResults reads the results of this restore back. The error is
// ErrResultsUnreadable if there are permanently no readable results.
func (j *Runner) readStoredResults(ctx context.Context, store *storage.Store, req RunRequest) (resultsFile, error) {
	data, err := readResultsFile(ctx, store, req.Name, maxResultsBytes)
	if err != nil {
		return resultsFile{}, err
	}
	var found resultsFile
	if err := json.Unmarshal(data, &found); err != nil {
		return resultsFile{}, fmt.Errorf("%w: the results of restore %q are damaged: %w", ErrResultsUnreadable, req.Name, err)
	}
	if found.Restore.UID != req.UID {
		return resultsFile{}, fmt.Errorf("%w: the results in the store are those of another restore that is called %q, too: "+
			"give restores into one location different names", ErrResultsUnreadable, req.Name)
	}
	return found, nil
}

// readResultsFile reads the results file, if it has at most the given number of bytes.
func readResultsFile(ctx context.Context, store *storage.Store, name string, most int) ([]byte, error) {
	file, err := store.GetRestoreFile(ctx, name, storage.RestoreResults)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrResultsUnreadable, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened only for reading
	source := &errorRecordingReader{Reader: file}
	var data []byte
	uncompressed, err := gzip.NewReader(source)
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(uncompressed, int64(most)+1))
	}
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("reading the results of restore %q: %w", name, source.err)
	case err != nil:
		return nil, fmt.Errorf("%w: the results of restore %q are damaged: %w", ErrResultsUnreadable, name, err)
	case len(data) > most:
		return nil, fmt.Errorf("%w: the results of restore %q have more than %d bytes", ErrResultsUnreadable, name, most)
	}
	return data, nil
}

// errorRecordingReader records the error of a Reader, to distinguish a store that does not
// answer from a damaged file.
type errorRecordingReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (a *errorRecordingReader) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

// readStoredReport returns the report of this restore about its objects, as far as it is in
// the store. The report is empty if nothing readable was stored.
func (j *Runner) readStoredReport(ctx context.Context, store *storage.Store, req RunRequest) (itemReport, error) {
	found, err := j.readStoredResults(ctx, store, req)
	switch {
	case err == nil:
		return itemReport{results: found, fromStore: true}, nil
	case errors.Is(err, ErrResultsUnreadable):
		logr.FromContextOrDiscard(ctx).Info("The outcome of each object is unknown", "reason", err.Error())
		return itemReport{}, nil
	}
	return itemReport{}, err
}
