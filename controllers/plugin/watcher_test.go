// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/controllers/plugin"
)

// patience is reached only by a failing test.
const patience = 30 * time.Second

// watch watches dir until the test ends.
func watch(t testing.TB, dir string) <-chan []string {
	t.Helper()
	changes := make(chan []string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := &plugin.Watcher{
		Dir: dir, DebounceInterval: 20 * time.Millisecond,
		OnChange: func(paths []string) { changes <- paths },
		OnError:  func(err error) { t.Errorf("Failed: %v", err) },
	}
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return changes
}

// awaitChange calls do repeatedly until the watch has begun, and waits until path is reported.
func awaitChange(t testing.TB, changes <-chan []string, path string, do func()) {
	t.Helper()
	do()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		select {
		case paths := <-changes:
			if slices.Contains(paths, path) {
				return
			}
		case <-again.C:
			do()
		case <-end.C:
			t.Fatalf("%s was not reported", path)
		}
	}
}

func write(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plugin")
	changes := watch(t, dir)
	awaitChange(t, changes, file, func() { write(t, file) })
	awaitChange(t, changes, file, func() {
		next := filepath.Join(dir, ".next")
		write(t, next)
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	})
	mode := os.FileMode(0o700)
	awaitChange(t, changes, file, func() {
		mode ^= 0o100
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	})
	sub := filepath.Join(dir, "vendor", "v2")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(sub, "plugin")
	awaitChange(t, changes, deep, func() { write(t, deep) })
	removed := false
	awaitChange(t, changes, file, func() {
		if !removed && os.Remove(file) == nil {
			removed = true
		}
	})
}

// TestWatch_SymlinkedDirectory watches a directory through a link.
func TestWatch_SymlinkedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "plugin")
	changes := watch(t, dir)
	awaitChange(t, changes, file, func() { write(t, file) })
}

// TestWatch_MissingDirectory begins before the directory exists.
func TestWatch_MissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mnt", "plugins")
	file := filepath.Join(dir, "plugin")
	changes := watch(t, dir)
	awaitChange(t, changes, dir, func() {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	})
	awaitChange(t, changes, file, func() { write(t, file) })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, changes, dir, func() {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file)
	})
	awaitChange(t, changes, file, func() { write(t, file) })
}

// TestWatch_OutsideDirectory checks that changes outside the directory are not reported.
func TestWatch_OutsideDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "plugins")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	changes := watch(t, dir)
	file := filepath.Join(dir, "plugin")
	awaitChange(t, changes, file, func() { write(t, file) })
	write(t, filepath.Join(parent, "other"))
	awaitChange(t, changes, file, func() {
		write(t, file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	})
	for {
		select {
		case paths := <-changes:
			for _, path := range paths {
				if path != file {
					t.Errorf("%s was reported", path)
				}
			}
			continue
		default:
		}
		return
	}
}
