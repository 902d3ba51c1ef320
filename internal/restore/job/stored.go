// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// maxReport is how many bytes of results are read back. They have at most
// results.MaxMessages warnings and as many errors.
const maxReport = 128 << 20

// ErrNoReport says that the store has no results of this restore that could be read.
var ErrNoReport = errors.New("what became of each object can not be read back")

// stored reads the results of this restore back. The error is ErrNoReport if there are
// none that could be read, whatever is done.
func (j *Job) stored(ctx context.Context, store *backupstore.Store, req Request) (report, error) {
	data, err := readBack(ctx, store, req.Name, maxReport)
	if err != nil {
		return report{}, err
	}
	var found report
	if err := json.Unmarshal(data, &found); err != nil {
		return report{}, fmt.Errorf("%w: the results of restore %q are damaged: %w", ErrNoReport, req.Name, err)
	}
	if found.Restore.UID != req.UID {
		return report{}, fmt.Errorf("%w: the results in the store are those of another restore that is called %q, too: "+
			"give restores into one location different names", ErrNoReport, req.Name)
	}
	return found, nil
}

// readBack reads the results file, if it has at most so many bytes.
func readBack(ctx context.Context, store *backupstore.Store, name string, most int) ([]byte, error) {
	file, err := store.GetRestoreFile(ctx, name, backupstore.RestoreResults)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoReport, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	source := &attempt{Reader: file}
	var data []byte
	uncompressed, err := gzip.NewReader(source)
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(uncompressed, int64(most)+1))
	}
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("reading the results of restore %q: %w", name, source.err)
	case err != nil:
		return nil, fmt.Errorf("%w: the results of restore %q are damaged: %w", ErrNoReport, name, err)
	case len(data) > most:
		return nil, fmt.Errorf("%w: the results of restore %q have more than %d bytes", ErrNoReport, name, most)
	}
	return data, nil
}

// attempt keeps the error of a Reader, to tell a store that does not answer from a file
// that is damaged.
type attempt struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (a *attempt) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

// toldBefore returns what this restore told of its objects as far as it is in the store.
// It tells nothing if it stored nothing, or nothing that can be read.
func (j *Job) toldBefore(ctx context.Context, store *backupstore.Store, req Request) (told, error) {
	found, err := j.stored(ctx, store, req)
	switch {
	case err == nil:
		return told{report: found, stored: true}, nil
	case errors.Is(err, ErrNoReport):
		logr.FromContextOrDiscard(ctx).Info("Nothing is known of what became of each object", "reason", err.Error())
		return told{}, nil
	}
	return told{}, err
}
