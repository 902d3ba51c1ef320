// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// copyTree copies a directory with modes, owners, times and symbolic links. What other programs
// remove meanwhile is left out, and so are sockets, pipes and devices.
func copyTree(ctx context.Context, source, target string) error {
	var restoreTimes []func() error
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		relative, relErr := filepath.Rel(source, path)
		if relErr != nil {
			return relErr
		}
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if err == nil {
			err = copyEntry(path, filepath.Join(target, relative), info)
		}
		if errors.Is(err, fs.ErrNotExist) && path != source {
			return nil // It was removed meanwhile.
		}
		if err == nil && info.IsDir() {
			// Whatever is created in a directory changes its time.
			restoreTimes = append(restoreTimes, func() error {
				return os.Chtimes(filepath.Join(target, relative), time.Time{}, info.ModTime())
			})
		}
		return err
	})
	for _, restore := range restoreTimes {
		if err == nil {
			err = restore()
		}
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", filepath.Base(source), err)
	}
	return nil
}

func copyEntry(source, target string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", source)
	}
	var err error
	switch info.Mode().Type() {
	case fs.ModeDir:
		err = os.Mkdir(target, 0o700)
	case fs.ModeSymlink:
		var link string
		if link, err = os.Readlink(source); err == nil {
			err = os.Symlink(link, target)
		}
	case 0:
		err = copyFile(source, target)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Lchown(target, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		return nil
	}
	if err := os.Chmod(target, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(target, time.Time{}, info.ModTime())
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
