// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// lostAndFound is a directory in the root of many volumes. It belongs to the file system
// checker, and other users cannot read it.
const lostAndFound = "lost+found"

// List implements objectstore.Store. Memory is bounded by the number of names
// in one directory.
func (s *Store) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		w := &directoryWalk{store: s, ctx: ctx, opts: opts, yield: yield}
		err := opts.Validate()
		if err == nil {
			dir := path.Dir(opts.Prefix + "x") // the part before the last slash
			_, err = w.walkDirectory(dir)
		}
		if err != nil {
			yield(objectstore.Entry{}, toStoreError("listing", opts.Prefix, err))
		}
	}
}

// directoryWalk is the state of one listing.
type directoryWalk struct {
	store *Store
	ctx   context.Context //nolint:containedctx // Lives as long as one call of List.
	opts  objectstore.ListOptions
	yield func(objectstore.Entry, error) bool
}

// walkDirectory lists one directory and its contents, and returns whether to continue.
func (w *directoryWalk) walkDirectory(dir string) (bool, error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	names, err := w.store.listSortedDirectory(dir)
	if err != nil {
		return false, err
	}
	for _, e := range names {
		if goOn, err := w.visitEntry(path.Join(dir, e.Name()), e); err != nil || !goOn {
			return false, err
		}
	}
	return true, nil
}

func (w *directoryWalk) visitEntry(key string, e fs.DirEntry) (bool, error) {
	if e.IsDir() {
		return w.visitDirectory(key)
	}
	if !strings.HasPrefix(key, w.opts.Prefix) || key <= w.opts.StartAfter {
		return true, nil
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return w.yield(objectstore.Entry{Info: toObjectInfo(key, info)}, nil), nil
}

func (w *directoryWalk) visitDirectory(dir string) (bool, error) {
	key := dir + "/"
	beyond := strings.HasPrefix(key, w.opts.Prefix)
	if !beyond && !strings.HasPrefix(w.opts.Prefix, key) {
		return true, nil
	}
	// Everything below sorts before StartAfter.
	if key < w.opts.StartAfter && !strings.HasPrefix(w.opts.StartAfter, key) {
		return true, nil
	}
	if !beyond || w.opts.Delimiter == "" {
		return w.walkDirectory(dir)
	}
	if key <= w.opts.StartAfter {
		return true, nil
	}
	if found, err := w.store.hasObjectBelow(dir); err != nil || !found {
		return true, err
	}
	return w.yield(objectstore.Entry{Info: objectstore.Info{Key: key}, IsPrefix: true}, nil), nil
}

// hasObjectBelow reports whether there is an object below dir. Empty leftover directories
// are not listed.
func (s *Store) hasObjectBelow(dir string) (bool, error) {
	names, err := s.listSortedDirectory(dir)
	if err != nil {
		return false, err
	}
	for _, e := range names {
		if !e.IsDir() {
			return true, nil
		}
		if found, err := s.hasObjectBelow(path.Join(dir, e.Name())); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// listSortedDirectory returns the regular files and directories of dir in the order of their
// keys. That is not the order of their names: a directory "a" holds keys that
// start with "a/", which sort after "a-b".
func (s *Store) listSortedDirectory(dir string) ([]fs.DirEntry, error) {
	all, err := s.readDir(dir)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool {
		// Temporary files have invalid keys. So have files with unusual names that another
		// program created here: no call can address them.
		if objectstore.ValidateKey(e.Name()) != nil {
			return true
		}
		if e.IsDir() {
			return dir == "." && e.Name() == lostAndFound
		}
		return !e.Type().IsRegular()
	})
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	return all, nil
}

func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// readDir reads a directory. A missing directory is empty.
func (s *Store) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(dir)
	if errors.Is(toNotExist(err), fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := f.ReadDir(-1)
	if errors.Is(toNotExist(err), fs.ErrNotExist) {
		err = nil
	}
	return all, errors.Join(err, f.Close())
}

// RemoveStaleTempFiles removes the temporary files of crashed writers: those below prefix
// (a directory; empty for the whole store) that were last written more than an hour before
// now. It returns the number of removed files.
func (s *Store) RemoveStaleTempFiles(ctx context.Context, prefix string, now time.Time) (int, error) {
	dir := path.Dir(prefix + "x")
	n, err := s.removeStaleInTree(ctx, dir, now.Add(-staleTempAge))
	if err != nil {
		return n, toStoreError("sweeping", prefix, err)
	}
	return n, nil
}

func (s *Store) removeStaleInTree(ctx context.Context, dir string, before time.Time) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.removeStaleInDirectory(dir, before)
	if err != nil {
		return n, err
	}
	all, err := s.readDir(dir)
	for _, e := range all {
		if err != nil {
			return n, err
		}
		if e.IsDir() {
			var below int
			below, err = s.removeStaleInTree(ctx, path.Join(dir, e.Name()), before)
			n += below
		}
	}
	s.removeEmptyDirectories(dir)
	return n, err
}

// removeStaleInDirectory removes the stale temporary files of one directory.
func (s *Store) removeStaleInDirectory(dir string, before time.Time) (int, error) {
	all, err := s.readDir(dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range all {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), objectstore.ReservedPrefix) {
			continue
		}
		info, err := e.Info()
		if err != nil || info.ModTime().After(before) {
			continue
		}
		if err := s.root.Remove(path.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}
