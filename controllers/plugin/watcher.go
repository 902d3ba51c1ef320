// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// defaultDebounce is how long no event must arrive before a change is reported.
	defaultDebounce = 500 * time.Millisecond
	// maxDebounce limits how long a change is held back while others follow.
	maxDebounce = 10 * time.Second
)

// Watcher watches the directory of plugin binaries, with all its subdirectories, and
// reports which paths changed.
//
// It waits until a change has settled, because a copy is written piece by piece
// and a package manager changes many files. It reports paths and reads none of the files:
// other packages decide whether a changed file is in use, and whether it is a plugin at
// all. No file is ever executed just because it is in the directory.
//
// It needs a file system that reports changes; some network file systems do not report
// changes made on another machine.
type Watcher struct {
	// Dir is the absolute path of the directory. It may be created, removed and recreated
	// at any time.
	Dir string
	// OnChange is called, in one goroutine, with the paths that were created, written,
	// removed, renamed or whose permissions changed, sorted. The path of a directory stands
	// for everything below it. OnChange must not block.
	OnChange func(paths []string)
	// OnError, if set, is called with the error if a directory cannot be watched. Its
	// changes are not reported then.
	OnError func(err error)
	// DebounceInterval replaces the default of half a second without events before OnChange
	// is called.
	DebounceInterval time.Duration
}

// Run watches until ctx is done, and calls OnChange for changes since it began. It returns
// an error if nothing can be watched at all.
func (w *Watcher) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching the plugin directory %s: %w", w.Dir, err)
	}
	defer func() { _ = watcher.Close() }()
	r := &activeWatch{Watcher: w, watcher: watcher, paths: map[string]bool{}}
	if r.DebounceInterval <= 0 {
		r.DebounceInterval = defaultDebounce
	}
	r.watchRootAndParent()
	return r.processEvents(ctx)
}

// activeWatch is a running Watcher.
type activeWatch struct {
	*Watcher
	watcher *fsnotify.Watcher
	// paths changed since the last call of OnChange, the first at firstChange.
	paths       map[string]bool
	firstChange time.Time
}

func (r *activeWatch) processEvents(ctx context.Context) error {
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-r.watcher.Events:
			if r.handleFSEvent(event) {
				settled.Reset(min(r.DebounceInterval, max(0, maxDebounce-time.Since(r.firstChange))))
			}
		case err := <-r.watcher.Errors:
			r.reportWatchError(err)
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				r.recordChangedPath(r.Dir) // anything may have changed
				settled.Reset(r.DebounceInterval)
			}
		case <-settled.C:
			paths := slices.Sorted(maps.Keys(r.paths))
			clear(r.paths)
			r.OnChange(paths)
		}
	}
}

// handleFSEvent records one event and reports whether it concerns the directory.
func (r *activeWatch) handleFSEvent(event fsnotify.Event) bool {
	if event.Name == r.Dir || !r.isInWatchedDir(event.Name) {
		// The directory or one of its ancestors was created or removed.
		if !r.isDirOrAncestor(event.Name) {
			return false
		}
		r.watchRootAndParent()
		r.recordChangedPath(r.Dir)
		return true
	}
	if event.Has(fsnotify.Create) {
		r.watchRecursively(event.Name)
	}
	r.recordChangedPath(event.Name)
	return true
}

func (r *activeWatch) recordChangedPath(path string) {
	if len(r.paths) == 0 {
		r.firstChange = time.Now()
	}
	r.paths[path] = true
}

// isInWatchedDir reports whether a path is in the directory.
func (r *activeWatch) isInWatchedDir(path string) bool {
	relative, err := filepath.Rel(r.Dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// isDirOrAncestor reports whether the directory is at path or below it.
func (r *activeWatch) isDirOrAncestor(path string) bool {
	relative, err := filepath.Rel(path, r.Dir)
	return err == nil && filepath.IsLocal(relative)
}

// watchRootAndParent watches the directory and its nearest existing ancestor, which reports its
// creation and removal.
func (r *activeWatch) watchRootAndParent() {
	for dir := filepath.Dir(r.Dir); ; dir = filepath.Dir(dir) {
		if err := r.watcher.Add(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
	}
	r.watchRecursively(r.Dir)
}

// watchRecursively watches a directory and its subdirectories. Other files and missing paths are
// skipped.
func (r *activeWatch) watchRecursively(path string) {
	if path == r.Dir {
		path += string(filepath.Separator) // it may be a link to the directory
	}
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return ignoreNotExist(err)
		}
		return ignoreNotExist(r.watcher.Add(filepath.Clean(path)))
	})
	if err != nil {
		r.reportWatchError(err)
	}
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

func (r *activeWatch) reportWatchError(err error) {
	if r.OnError != nil {
		r.OnError(fmt.Errorf("watching the plugin directory %s: %w", r.Dir, err))
	}
}
