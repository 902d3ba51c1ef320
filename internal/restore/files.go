// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// storeReportFiles stores the files about the restore for users, its log last. Files that
// belong to a report that was read from the store are not replaced.
func (j *Runner) storeReportFiles(ctx context.Context, store *storage.Store, req RunRequest, what itemReport) error {
	what.results.Restore.UID = req.UID
	if what.resourceListWriter == nil {
		what.resourceListWriter = func(w io.Writer) error { return writeResourceList(w, emptyResourceList) }
	}
	if err := putRestoreFile(ctx, store, req.Name, storage.RestoreResults, what.results.encodeJSON); err != nil {
		return err
	}
	for _, f := range []struct {
		file  storage.RestoreFile
		write func(io.Writer) error
	}{
		{storage.RestoreResourceList, what.resourceListWriter},
		{storage.RestoreItemOperations, operationsWriter(req, nil)},
	} {
		there := false
		if what.fromStore {
			var err error
			if there, err = hasRestoreFile(ctx, store, req.Name, f.file); err != nil {
				return err
			}
		}
		if there {
			continue
		}
		if err := putRestoreFile(ctx, store, req.Name, f.file, f.write); err != nil {
			return err
		}
	}
	if what.fromStore {
		return j.storeCompleteLog(ctx, store, req)
	}
	_, err := j.storeRunLog(ctx, store, req, runlog.Main, storage.RestoreLogs)
	return err
}

// operationsWriter returns a function that writes the file of operations.
func operationsWriter(req RunRequest, ended []velero.Operation) func(io.Writer) error {
	return func(w io.Writer) error {
		return json.NewEncoder(w).Encode(velero.ToRestoreOperations(req.Name, types.UID(req.UID), ended))
	}
}

// writeResourceList writes the list of resources as one JSON object, one kind at a time:
// all of it at once would need as much memory as the restore.
func writeResourceList(w io.Writer, list iter.Seq2[string, []string]) error {
	before := "{"
	for kind, names := range list {
		key, err := json.Marshal(kind)
		if err != nil {
			return fmt.Errorf("encoding the list of resources: %w", err)
		}
		value, err := json.Marshal(names)
		if err != nil {
			return fmt.Errorf("encoding the list of resources: %w", err)
		}
		if _, err := fmt.Fprintf(w, "%s%s:%s", before, key, value); err != nil {
			return err
		}
		before = ","
	}
	_, err := io.WriteString(w, strings.TrimSuffix(before, ",")+"}\n")
	return err
}

// emptyResourceList is the list of resources of a restore without objects.
func emptyResourceList(func(string, []string) bool) {}

// putRestoreFile streams the compressed output of write to a file of the restore. Write has
// ended when putRestoreFile returns.
func putRestoreFile(ctx context.Context, store *storage.Store, name string, file storage.RestoreFile, write func(io.Writer) error) error {
	reader, writer := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		compressed := gzip.NewWriter(writer)
		err := recoverFilePanic(func() error { return write(compressed) })
		_ = writer.CloseWithError(errors.Join(err, compressed.Close())) // always nil
	}()
	_, err := store.PutRestoreFile(ctx, name, file, reader)
	_ = reader.CloseWithError(err) // always nil; it ends write if the store did not read to the end
	<-written
	return err
}

// recoverFilePanic returns a panic of f as an error: no other code recovers it.
func recoverFilePanic(f func() error) (err error) {
	defer panics.Recover(&err)
	return f()
}

// hasRestoreFile reports whether a restore has a file.
func hasRestoreFile(ctx context.Context, store *storage.Store, name string, file storage.RestoreFile) (bool, error) {
	found, err := store.GetRestoreFile(ctx, name, file)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, found.Close()
}
