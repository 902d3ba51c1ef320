// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const modulePath = "github.com/grapnel-dev/grapnel"

// build returns the path of an up-to-date binary.
func build(ctx context.Context) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(bin, ".s3server.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	source, binary := filepath.Join(root, "test", "s3server"), filepath.Join(bin, "s3server")
	fresh, err := isFresh(binary, source)
	if err != nil || fresh {
		return binary, err
	}
	// A running binary cannot be written to, but replaced.
	tmp := binary + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", tmp, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return binary, os.Rename(tmp, binary)
}

// moduleRoot walks up from the working directory, which for a test is its
// package, to the go.mod of this module.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the working directory is not below the source of module %s", modulePath)
		}
		dir = parent
	}
}

// lock keeps other processes from building at the same time.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // Closing unlocks.
}

// isFresh says whether the binary is newer than everything in source.
func isFresh(binary, source string) (bool, error) {
	built, err := os.Stat(binary)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	newest := time.Time{}
	err = filepath.WalkDir(source, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return built.ModTime().After(newest), err
}
