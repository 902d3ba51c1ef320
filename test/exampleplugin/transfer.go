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
	"path"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxChunkBytes is the maximum size of one write.
const maxChunkBytes = 64 << 10

// rootedDir is a directory that paths cannot leave: names come from objects, which any user
// may have written.
type rootedDir struct{ root, name string }

// transfer copies the files of one directory to a target, where they appear at once when
// the last one is complete. A real one would also preserve owners, modes and links.
type transfer struct {
	id       string
	from, to rootedDir
	// replace means that an existing target directory may be replaced.
	replace bool
	// rate is the number of bytes copied per second; 0 means no limit.
	rate int64
	// stop cancels the transfer.
	stop context.CancelFunc
	// ended is closed when the transfer has ended and its outcome is recorded.
	ended chan struct{}

	mu       sync.Mutex
	progress item.Progress
}

// currentProgress returns the progress of the transfer.
func (t *transfer) currentProgress() *item.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.progress
	return &progress
}

// updateProgress updates the progress.
func (t *transfer) updateProgress(change func(*item.Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.progress)
	t.progress.Updated = time.Now()
}

func (t *transfer) setOutcome(outcome item.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress = outcome
}

// runToOutcome copies everything and returns the outcome, which is not reported before it
// is recorded.
func (t *transfer) runToOutcome(ctx context.Context) item.Progress {
	err := t.copySourceDir(ctx)
	outcome := *t.currentProgress()
	outcome.Completed, outcome.Updated = true, time.Now()
	switch {
	case err == nil:
		outcome.Description = "copied"
	case errors.Is(err, context.Canceled):
		outcome.Cancelled, outcome.Description = true, "cancelled; the copied files were removed"
	default:
		outcome.Err = err.Error()
	}
	return outcome
}

func (t *transfer) copySourceDir(ctx context.Context) (err error) {
	from, err := os.OpenRoot(t.from.root)
	if err != nil {
		return fmt.Errorf("opening the directory to copy from: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := os.MkdirAll(t.to.root, 0o700); err != nil {
		return fmt.Errorf("creating the directory to copy to: %w", err)
	}
	to, err := os.OpenRoot(t.to.root)
	if err != nil {
		return fmt.Errorf("opening the directory to copy to: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err = t.copyFilesToPartialDir(ctx, from, to); err == nil {
		return nil
	}
	if rest := to.RemoveAll(partialDirName(t.id)); rest != nil {
		return fmt.Errorf("removing the copied files: %w", rest)
	}
	return err
}

func (t *transfer) copyFilesToPartialDir(ctx context.Context, from, to *os.Root) error {
	files, total, err := listRegularFiles(from, t.from.name)
	if err != nil {
		return fmt.Errorf("looking for the files: %w", err)
	}
	t.updateProgress(func(p *item.Progress) { p.NTotal = total })
	if err := to.MkdirAll(partialDirName(t.id), 0o700); err != nil {
		return fmt.Errorf("creating the directory of the copy: %w", err)
	}
	for _, file := range files {
		name := strings.TrimPrefix(file, t.from.name+"/")
		t.updateProgress(func(p *item.Progress) { p.Description = "copying " + name })
		if err := t.copyFile(ctx, from, to, file, path.Join(partialDirName(t.id), name)); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	return t.moveToTarget(to)
}

// listRegularFiles returns the files in a directory, and their total size in bytes.
func listRegularFiles(root *os.Root, dir string) (files []string, total int64, err error) {
	err = fs.WalkDir(root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files, total = append(files, name), total+info.Size()
		return nil
	})
	return files, total, err
}

func (t *transfer) copyFile(ctx context.Context, from, to *os.Root, source, target string) (err error) {
	in, err := from.Open(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := to.MkdirAll(path.Dir(target), 0o700); err != nil {
		return err
	}
	out, err := to.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for {
		n, err := io.CopyN(out, in, t.chunkBytes())
		t.updateProgress(func(p *item.Progress) {
			p.NCompleted += n
			p.NTotal = max(p.NTotal, p.NCompleted) // the file may have grown
		})
		if errors.Is(err, io.EOF) {
			return ctx.Err()
		}
		if err = errors.Join(err, t.waitForRateLimit(ctx, n)); err != nil {
			return err
		}
	}
}

// chunkBytes is smaller for a slow copy, so that its progress is visible.
func (t *transfer) chunkBytes() int64 {
	if t.rate == 0 {
		return maxChunkBytes
	}
	return min(maxChunkBytes, max(1, t.rate/20))
}

// waitForRateLimit waits for the time that n bytes take at the rate limit, and returns an error
// when the copy is canceled.
func (t *transfer) waitForRateLimit(ctx context.Context, n int64) error {
	if t.rate == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(float64(n) / float64(t.rate) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moveToTarget moves the complete copy to its target.
func (t *transfer) moveToTarget(to *os.Root) error {
	if err := to.MkdirAll(path.Dir(t.to.name), 0o700); err != nil {
		return fmt.Errorf("creating the parent directory of the copy: %w", err)
	}
	if _, err := to.Stat(t.to.name); err == nil && !t.replace {
		return fmt.Errorf("there is already data in %s: remove it to copy the data there", t.to.name)
	}
	if err := to.RemoveAll(t.to.name); err != nil {
		return fmt.Errorf("removing an earlier copy: %w", err)
	}
	if err := to.Rename(partialDirName(t.id), t.to.name); err != nil {
		return fmt.Errorf("moving the copy to its target: %w", err)
	}
	return nil
}
