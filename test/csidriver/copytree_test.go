// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestCopyTree(t *testing.T) {
	source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "target")
	then := time.Unix(1_000_000_000, 0)
	err := errors.Join(
		os.MkdirAll(filepath.Join(source, "dir"), 0o755),
		os.WriteFile(filepath.Join(source, "dir", "file"), []byte("content"), 0o600),
		os.Symlink("../nowhere", filepath.Join(source, "dir", "link")),
		syscall.Mkfifo(filepath.Join(source, "pipe"), 0o600),
		os.Chmod(filepath.Join(source, "dir"), os.ModeSticky|0o777),
		os.Chtimes(filepath.Join(source, "dir", "file"), then, then),
		os.Chtimes(filepath.Join(source, "dir"), then, then),
	)
	owner := os.Geteuid()
	if owner == 0 {
		owner = 4711
		err = errors.Join(err, os.Lchown(filepath.Join(source, "dir", "file"), owner, owner))
	}
	if err == nil {
		err = copyTree(t.Context(), source, target)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"dir": os.ModeDir | os.ModeSticky | 0o777, "dir/file": 0o600} {
		info, err := os.Lstat(filepath.Join(target, path))
		if err != nil || info.Mode() != mode || !info.ModTime().Equal(then) {
			t.Errorf("%s is %v, %v", path, info, err)
		}
	}
	info, err := os.Stat(filepath.Join(target, "dir", "file"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("the file is %+v, %v; want owner %d", info, err, owner)
	}
	if content, err := os.ReadFile(filepath.Join(target, "dir", "file")); err != nil || string(content) != "content" {
		t.Errorf("the file has %q, %v", content, err)
	}
	if link, err := os.Readlink(filepath.Join(target, "dir", "link")); err != nil || link != "../nowhere" {
		t.Errorf("the link is %q, %v", link, err)
	}
	if _, err := os.Lstat(filepath.Join(target, "pipe")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pipe is copied: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := copyTree(canceled, source, filepath.Join(t.TempDir(), "target")); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that it was canceled", err)
	}
}
