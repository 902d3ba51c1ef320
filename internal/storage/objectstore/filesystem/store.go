// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Store implements objectstore.Store in one directory. It is safe for concurrent use, also
// by several processes on one file system. A Put needs 256 KiB of memory, independent of
// the size of the object.
type Store struct {
	root           *os.Root
	lacksHardLinks atomic.Bool // set when a link failed because the file system does not support hard links
}

var _ objectstore.Store = (*Store)(nil)

// Open opens the store in the directory dir below the given root. Dir is relative and
// created if missing; "" or "." is the root itself. The error is ErrNoStore if the root
// does not exist; it does not contain the path of the root. Close releases the directory.
func Open(root, dir string) (*Store, error) {
	base, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the root of filesystem locations: %w", objectstore.ErrNoStore)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the root of filesystem locations: %w", withoutPaths(err))
	}
	if dir == "" || dir == "." {
		return &Store{root: base}, nil
	}
	sub, err := openSubdirectory(base, dir)
	return sub, errors.Join(err, base.Close())
}

func openSubdirectory(base *os.Root, dir string) (*Store, error) {
	if err := objectstore.ValidateKey(dir); err != nil {
		return nil, fmt.Errorf("opening directory %q: %w", dir, err)
	}
	if err := makeDirs(base, dir); err != nil {
		return nil, fmt.Errorf("opening directory %q: %w", dir, toStoreError("making", dir, err))
	}
	sub, err := base.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening directory %q: %w", dir, withoutPaths(err))
	}
	return &Store{root: sub}, nil
}

// Close releases the directory. Open streams stay usable.
func (s *Store) Close() error { return s.root.Close() }

// Capabilities implements objectstore.Store.
func (s *Store) Capabilities() objectstore.Capabilities {
	return objectstore.Capabilities{PutIfAbsent: !s.lacksHardLinks.Load(), Metadata: true}
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	const op = "getting"
	if _, err := s.statRegularFile(ctx, op, key); err != nil {
		return nil, err
	}
	// With O_NONBLOCK, opening a FIFO that replaced the file does not block.
	f, err := s.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, toStoreError(op, key, toNotExist(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(toStoreError(op, key, err), f.Close())
	}
	return &objectReader{ctx: ctx, file: f, key: key}, nil
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	info, err := s.statRegularFile(ctx, "describing", key)
	if err != nil {
		return objectstore.Info{}, err
	}
	return toObjectInfo(key, info), nil
}

// statRegularFile describes the regular file under key. Anything else, such as a directory
// or a symbolic link, counts as missing.
func (s *Store) statRegularFile(ctx context.Context, op, key string) (fs.FileInfo, error) {
	if err := checkContextAndKey(ctx, op, key); err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, toStoreError(op, key, toNotExist(err))
	}
	return info, nil
}

// toNotExist returns a not-exist error for "a/b" if "a" is an object.
func toNotExist(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}

// Delete implements objectstore.Store. Directories that become empty are removed.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := s.removeObject(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) removeObject(ctx context.Context, key string) error {
	const op = "deleting"
	_, err := s.statRegularFile(ctx, op, key)
	if err == nil {
		err = s.root.Remove(key)
	}
	if err != nil && !errors.Is(err, objectstore.ErrNotExist) && !errors.Is(toNotExist(err), fs.ErrNotExist) {
		return toStoreError(op, key, err)
	}
	// Do this for a missing key too: a crash during an earlier Delete may have left the
	// directory behind.
	dir := s.removeEmptyParents(path.Dir(key))
	if err := syncDir(s.root, dir); err != nil && !errors.Is(toNotExist(err), fs.ErrNotExist) {
		return toStoreError(op, key, err)
	}
	return nil
}

func checkContextAndKey(ctx context.Context, op, key string) error {
	err := ctx.Err()
	if err == nil {
		err = objectstore.ValidateKey(key)
	}
	if err != nil {
		return &objectstore.Error{Op: op, Key: key, Err: err}
	}
	return nil
}

func toObjectInfo(key string, info fs.FileInfo) objectstore.Info {
	return objectstore.Info{
		Key:     key,
		Size:    info.Size(),
		ModTime: info.ModTime(),
		ETag: strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" +
			strconv.FormatInt(info.Size(), 36),
	}
}

// objectReader fails when the context ends, as the stream of a remote store does.
type objectReader struct {
	ctx  context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	file *os.File
	key  string
}

func (r *objectReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = toStoreError("reading", r.key, err)
	}
	return n, err
}

func (r *objectReader) Close() error { return r.file.Close() }
