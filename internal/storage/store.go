// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// maxJSONBytes bounds the JSON files that are read into memory. A bucket is not trusted,
// and decoding takes twelve times as much memory. The largest file is <b>-grapnel.json: a
// Backup object, which etcd limits to 1.5 MiB, and outputs of actions, which a run limits
// to 256 KiB.
const maxJSONBytes = 4 << 20

// Store manages the backups of one storage location. It has no state and is safe for
// concurrent use.
type Store struct {
	objects objectstore.Store
	prefix  string
}

// New returns the Store for the backups below prefix in objects. The prefix may be empty,
// and may end with a slash.
func New(objects objectstore.Store, prefix string) *Store {
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &Store{objects: objects, prefix: prefix}
}

// Capabilities returns those of the object store. If PutIfAbsent is false, two clusters
// that start a backup of the same name at the same moment may not detect each other; users
// should be warned. For S3 it is known after the first Claim or Probe.
func (s *Store) Capabilities() objectstore.Capabilities { return s.objects.Capabilities() }

// Space returns the capacity of the object store, or the zero value if it is unknown.
func (s *Store) Space(ctx context.Context) (objectstore.Space, error) {
	reporter, ok := s.objects.(objectstore.SpaceReporter)
	if !ok {
		return objectstore.Space{}, nil
	}
	return reporter.Space(ctx)
}

// ListNames yields the names of all backups that have a manifest, ours and those of other
// systems, in the order of their files. It skips directories that do not have the name of a
// backup.
func (s *Store) ListNames(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for found, err := range s.ListEntries(ctx) {
			if !yield(found.Name, err) {
				return
			}
		}
	}
}

// GetFile opens a file of the backup as it is stored, compressed. The error is
// objectstore.ErrNotExist if there is none. The caller closes the reader, and must not
// trust the content.
func (s *Store) GetFile(ctx context.Context, name string, file File) (io.ReadCloser, error) {
	key, err := s.fileKey(name, file)
	if err != nil {
		return nil, fmt.Errorf("getting %s of backup %q: %w", file, name, err)
	}
	r, err := s.objects.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("getting %s of backup %q: %w", file, name, err)
	}
	return r, nil
}

// PutRestoreFile stores a file of a restore, which the caller has compressed. It replaces
// an existing file.
func (s *Store) PutRestoreFile(ctx context.Context, name string, file RestoreFile, r io.Reader) (Digest, error) {
	key, err := s.restoreFileKey(name, file)
	if err != nil {
		return Digest{}, fmt.Errorf("storing %s of restore %q: %w", file, name, err)
	}
	digest, _, err := s.putWithDigest(ctx, key, newDigester(r, nil), objectstore.PutOptions{})
	if err != nil {
		return Digest{}, fmt.Errorf("storing %s of restore %q: %w", file, name, err)
	}
	return digest, nil
}

// GetRestoreFile is GetFile for a file of a restore.
func (s *Store) GetRestoreFile(ctx context.Context, name string, file RestoreFile) (io.ReadCloser, error) {
	key, err := s.restoreFileKey(name, file)
	if err != nil {
		return nil, fmt.Errorf("getting %s of restore %q: %w", file, name, err)
	}
	r, err := s.objects.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("getting %s of restore %q: %w", file, name, err)
	}
	return r, nil
}

// DeleteRestore removes all files of a restore. It succeeds if there are none.
func (s *Store) DeleteRestore(ctx context.Context, name string) error {
	err := ValidateName(name)
	if err == nil {
		err = s.deletePrefix(ctx, s.restoreDir(name), nil)
	}
	if err != nil {
		return fmt.Errorf("deleting the files of restore %q: %w", name, err)
	}
	return nil
}

// readJSONFile reads a small JSON file. One that is too large is a *CorruptError.
func (s *Store) readJSONFile(ctx context.Context, key string) (data []byte, err error) {
	r, err := s.objects.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err = io.ReadAll(io.LimitReader(r, maxJSONBytes+1))
	if err == nil && len(data) > maxJSONBytes {
		err = &CorruptError{Name: path.Base(path.Dir(key)), File: path.Base(key), Reason: fmt.Sprintf("has more than %d bytes", maxJSONBytes)}
	}
	return data, err
}

func (s *Store) putBytes(ctx context.Context, key string, data []byte, opts objectstore.PutOptions) error {
	_, err := s.objects.Put(ctx, key, bytes.NewReader(data), opts)
	return err
}

// toIndentedJSON is for files that users may read.
func toIndentedJSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}
