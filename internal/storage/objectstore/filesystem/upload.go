// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// Backups contain every Secret of a cluster, so other users get no access. The group
	// may write: with fsGroup, a pod that runs as another user can take over.
	fileMode fs.FileMode = 0o660
	dirMode  fs.FileMode = 0o770

	copyBufferSize = 256 << 10

	// A concurrent Delete may remove the directory between its creation and its use. Each
	// attempt fails only if another such Delete interferes.
	maxDirAttempts = 100
)

// Put implements objectstore.Store. It costs one fsync of the file and one of
// each directory that changed.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	const op = "putting"
	if err := checkContextAndKey(ctx, op, key); err != nil {
		return objectstore.Info{}, err
	}
	if opts.IfAbsent {
		// This avoids reading the whole stream in vain; link(2) decides.
		if _, err := s.root.Lstat(key); err == nil {
			return objectstore.Info{}, &objectstore.Error{Op: op, Key: key, Kind: objectstore.ErrExists}
		}
	}
	tmp, name, err := s.createTempFile(path.Dir(key))
	if err != nil {
		return objectstore.Info{}, toStoreError(op, key, err)
	}
	info, err := s.writeTempFile(ctx, tmp, r)
	if err == nil {
		err = s.publishTempFile(name, key, opts)
	}
	if err != nil {
		// Best effort: a leftover file is invisible and is removed later.
		_ = s.root.Remove(name)
		s.removeEmptyDirectories(path.Dir(key))
		return objectstore.Info{}, toStoreError(op, key, err)
	}
	// This only cleans up and must not fail the Put.
	_, _ = s.removeStaleInDirectory(path.Dir(key), info.ModTime().Add(-staleTempAge))
	return toObjectInfo(key, info), nil
}

// createTempFile creates a temporary file in dir, and dir if it is missing.
func (s *Store) createTempFile(dir string) (*os.File, string, error) {
	name := path.Join(dir, objectstore.ReservedPrefix+rand.Text())
	var last error
	for range maxDirAttempts {
		f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if err == nil {
			// The umask must not lock out the group. File systems without modes need no
			// change.
			_ = f.Chmod(fileMode)
			return f, name, nil
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return nil, "", errBelowObject
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
		last = err
		if err := makeDirs(s.root, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	return nil, "", last
}

// writeTempFile copies r to the file, syncs it to disk and closes it.
func (s *Store) writeTempFile(ctx context.Context, f *os.File, r io.Reader) (fs.FileInfo, error) {
	err := copyContent(ctx, f, r)
	if err == nil {
		err = f.Sync()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = ctx.Err()
	}
	return info, err
}

func copyContent(ctx context.Context, w io.Writer, r io.Reader) error {
	buf := make([]byte, copyBufferSize)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &sourceError{err: err}
		}
	}
}

// publishTempFile gives the temporary file its final name. From then on the object is
// visible.
func (s *Store) publishTempFile(tmp, key string, opts objectstore.PutOptions) error {
	put := s.renameTempFile
	if opts.IfAbsent {
		put = s.linkTempFile
	}
	if err := put(tmp, key); err != nil {
		return err
	}
	return syncDir(s.root, path.Dir(key))
}

func (s *Store) renameTempFile(tmp, key string) error {
	err := s.root.Rename(tmp, key)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EISDIR) {
		return errAboveObject
	}
	return err
}

// linkTempFile is rename for a key that must not exist. On a file system without hard links
// it checks first and then renames, and Capabilities reports that from then on.
func (s *Store) linkTempFile(tmp, key string) error {
	err := s.root.Link(tmp, key)
	if err == nil {
		// A failure leaves an additional, invisible name of the object.
		_ = s.root.Remove(tmp)
		return nil
	}
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOSYS) {
		return err
	}
	s.lacksHardLinks.Store(true)
	if _, err := s.root.Lstat(key); err == nil {
		return fs.ErrExist
	}
	return s.renameTempFile(tmp, key)
}

// removeEmptyDirectories removes dir and its parents while they are empty.
func (s *Store) removeEmptyDirectories(dir string) {
	_ = s.removeEmptyParents(dir)
}

// removeEmptyParents removes dir and its parents while they are empty, and returns the
// first that is not removed.
func (s *Store) removeEmptyParents(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := s.root.Lstat(dir)
		if errors.Is(toNotExist(err), fs.ErrNotExist) {
			continue
		}
		// Remove would also remove an object.
		if err != nil || !info.IsDir() || s.root.Remove(dir) != nil {
			break
		}
	}
	return dir
}

// makeDirs creates dir and its parents and syncs each new one to disk.
func makeDirs(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := path.Dir(dir)
	if err := makeDirs(root, parent); err != nil {
		return err
	}
	err := root.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrExist) {
		if info, statErr := root.Stat(dir); statErr == nil && !info.IsDir() {
			return errBelowObject
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := allowGroupAccess(root, dir); err != nil {
		return err
	}
	return syncDir(root, parent)
}

// allowGroupAccess reverts the effect of the umask, and keeps the setgid bit that fsGroup
// relies on.
func allowGroupAccess(root *os.Root, dir string) error {
	info, err := root.Stat(dir)
	if err != nil {
		return err
	}
	return root.Chmod(dir, dirMode|info.Mode()&fs.ModeSetgid)
}

func syncDir(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // some network file systems cannot sync directories and need not
	}
	return errors.Join(err, f.Close())
}

// staleTempAge is the time since the last write after which a temporary file is stale. Both
// times come from the file system, so clock skew does not matter.
const staleTempAge = time.Hour
