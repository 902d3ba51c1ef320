// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package folder

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
	// defaultSettle is how long nothing must happen before a change is told.
	defaultSettle = 500 * time.Millisecond
	// maxSettle bounds how long a change is held back while others follow.
	maxSettle = 10 * time.Second
)

// Watch tells of changes below a folder. Set the fields, then call Run once.
type Watch struct {
	// Dir is the absolute path of the folder. It may come later, and go and come
	// again.
	Dir string
	// Changed is called, in one goroutine, with the paths that were created, written,
	// removed, renamed or whose permissions changed, sorted. One of a folder stands for
	// everything below it. It must not block.
	Changed func(paths []string)
	// Failed, if set, is told what keeps a folder from being watched. Its changes are
	// not seen then.
	Failed func(err error)
	// Settle replaces the half second that nothing must happen before Changed is
	// called.
	Settle time.Duration
}

// Run watches until ctx is done, and calls Changed for what changed since it began. Its
// error says that nothing can be watched at all.
func (w *Watch) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching the plugin folder %s: %w", w.Dir, err)
	}
	defer func() { _ = watcher.Close() }()
	r := &round{Watch: w, watcher: watcher, paths: map[string]bool{}}
	if r.Settle <= 0 {
		r.Settle = defaultSettle
	}
	r.root()
	return r.loop(ctx)
}

// round is a Watch that runs.
type round struct {
	*Watch
	watcher *fsnotify.Watcher
	// paths changed since the last call of Changed, the first at since.
	paths map[string]bool
	since time.Time
}

func (r *round) loop(ctx context.Context) error {
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-r.watcher.Events:
			if r.take(event) {
				settled.Reset(min(r.Settle, max(0, maxSettle-time.Since(r.since))))
			}
		case err := <-r.watcher.Errors:
			r.failed(err)
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				r.note(r.Dir) // anything may have changed
				settled.Reset(r.Settle)
			}
		case <-settled.C:
			paths := slices.Sorted(maps.Keys(r.paths))
			clear(r.paths)
			r.Changed(paths)
		}
	}
}

// take notes one event and reports whether it concerns the folder.
func (r *round) take(event fsnotify.Event) bool {
	if event.Name == r.Dir || !r.below(event.Name) {
		// The folder itself came or went, or something on the way to it.
		if !r.leadsTo(event.Name) {
			return false
		}
		r.root()
		r.note(r.Dir)
		return true
	}
	if event.Has(fsnotify.Create) {
		r.add(event.Name)
	}
	r.note(event.Name)
	return true
}

func (r *round) note(path string) {
	if len(r.paths) == 0 {
		r.since = time.Now()
	}
	r.paths[path] = true
}

// below reports whether a path lies in the folder.
func (r *round) below(path string) bool {
	relative, err := filepath.Rel(r.Dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// leadsTo reports whether the folder is at path or below it.
func (r *round) leadsTo(path string) bool {
	relative, err := filepath.Rel(path, r.Dir)
	return err == nil && filepath.IsLocal(relative)
}

// root watches the folder, and the next one above it, so that its coming and going is
// seen.
func (r *round) root() {
	for dir := filepath.Dir(r.Dir); ; dir = filepath.Dir(dir) {
		if err := r.watcher.Add(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
	}
	r.add(r.Dir)
}

// add watches a folder and those below it. What is no folder, or gone, is passed over.
func (r *round) add(path string) {
	if path == r.Dir {
		path += string(filepath.Separator) // it may be a link to the folder
	}
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return ignoreGone(err)
		}
		return ignoreGone(r.watcher.Add(filepath.Clean(path)))
	})
	if err != nil {
		r.failed(err)
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

func (r *round) failed(err error) {
	if r.Failed != nil {
		r.Failed(fmt.Errorf("watching the plugin folder %s: %w", r.Dir, err))
	}
}
