// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Build compiles the main package in the directory source, which may be its own module, to
// the file target; go's cache makes it fast if nothing has changed. Several processes may
// build the same target: the first one compiles it, the others find it up to date. A target
// that is running or linked elsewhere keeps its content: it is replaced, not written to. More
// are further arguments of go build.
func Build(ctx context.Context, source, target string, more ...string) error {
	dir, name := filepath.Split(target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the directory of built programs: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening the directory of built programs: %w", err)
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for another build: %w", err)
	}
	tmp, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return fmt.Errorf("creating a directory to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	built := filepath.Join(tmp, name)
	// go does not relink a target that is up to date.
	if err := os.Link(target, built); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reusing an earlier build: %w", err)
	}
	args := slices.Concat([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", built}, more, []string{"."})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, bytes.TrimSpace(out))
	}
	if err := os.Rename(built, target); err != nil {
		return fmt.Errorf("installing the built program: %w", err)
	}
	return nil
}
