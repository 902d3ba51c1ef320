// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

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

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// files stores what a person may want to know of the restore, its log last. What is in
// the store beside a report that was read from there stays.
func (j *Job) files(ctx context.Context, store *backupstore.Store, req Request, what told) error {
	what.report.Restore.UID = req.UID
	if what.list == nil {
		what.list = func(w io.Writer) error { return writeList(w, none) }
	}
	if err := put(ctx, store, req.Name, backupstore.RestoreResults, what.report.write); err != nil {
		return err
	}
	for _, f := range []struct {
		file  backupstore.RestoreFile
		write func(io.Writer) error
	}{
		{backupstore.RestoreResourceList, what.list},
		{backupstore.RestoreItemOperations, writeOperations(req, nil)},
	} {
		there := false
		if what.stored {
			var err error
			if there, err = exists(ctx, store, req.Name, f.file); err != nil {
				return err
			}
		}
		if there {
			continue
		}
		if err := put(ctx, store, req.Name, f.file, f.write); err != nil {
			return err
		}
	}
	if what.stored {
		return j.storeWholeLog(ctx, store, req)
	}
	_, err := j.storeLog(ctx, store, req, runlog.Main, backupstore.RestoreLogs)
	return err
}

// writeOperations returns what writes the file of operations.
func writeOperations(req Request, ended []velero.Operation) func(io.Writer) error {
	return func(w io.Writer) error {
		return json.NewEncoder(w).Encode(velero.RestoreOperations(req.Name, types.UID(req.UID), ended))
	}
}

// writeList writes the list of resources as one JSON object, a kind at a time: all
// of it at once would take as much memory as the restore did.
func writeList(w io.Writer, list iter.Seq2[string, []string]) error {
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

// none is the list of resources of a restore that restored none.
func none(func(string, []string) bool) {}

// put streams what write writes, compressed, into a file of the restore. Write has
// ended when put returns.
func put(ctx context.Context, store *backupstore.Store, name string, file backupstore.RestoreFile, write func(io.Writer) error) error {
	reader, writer := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		compressed := gzip.NewWriter(writer)
		err := write(compressed)
		_ = writer.CloseWithError(errors.Join(err, compressed.Close())) // always nil
	}()
	_, err := store.PutRestoreFile(ctx, name, file, reader)
	_ = reader.CloseWithError(err) // always nil; it ends write if nobody read to the end
	<-written
	return err
}

// exists reports whether a restore has a file.
func exists(ctx context.Context, store *backupstore.Store, name string, file backupstore.RestoreFile) (bool, error) {
	found, err := store.GetRestoreFile(ctx, name, file)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, found.Close()
}
