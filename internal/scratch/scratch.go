// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// checkInterval is how many bytes of a file are written between two questions how
	// much space is left.
	checkInterval = 8 << 20
	// smallFileBytes is the size up to which a file needs minFreeBytes only, so that a node whose
	// disk is nearly full restores small backups still.
	smallFileBytes = 64 << 20
	minFreeBytes   = 64 << 20
	// minFreeShare is the part of the volume that stays free, a tenth: the kubelet evicts
	// pods when less is left.
	minFreeShare = 10
)

// ErrUnusable means that a file could not be created, written or read, for a reason that
// is not its content.
var ErrUnusable = errors.New("the directory given by --scratch-dir cannot be used")

// ErrFull means that there is no space for a file. An error that is ErrFull is
// ErrUnusable, too.
var ErrFull = fmt.Errorf("%w: no space is left", ErrUnusable)

// Dir is a directory for scratch files. Everything is safe for concurrent use. The zero
// value uses the directory for temporary files of the system, without a limit.
type Dir struct {
	// Path of the directory.
	Path string
	// Limit is how many bytes all open files may have together; 0 means that only the
	// volume limits them.
	Limit int64

	// statfs returns how many bytes the volume of a path has, and how many of them are
	// free.
	statfs func(path string) (size, free int64, err error)

	mu   sync.Mutex
	used int64
}

// File is a file without a name: no other process can change it, and it is gone with the
// process. One goroutine may write at a time; ReadAt may be called from any.
type File struct {
	dir            *Dir
	file           *os.File
	size           int64
	uncheckedBytes int64
}

// CreateFile creates a file for content of about so many bytes; 0 means that it is not
// known. The error is ErrFull if there is no space for them.
func (d *Dir) CreateFile(expected int64) (*File, error) {
	f := &File{dir: d}
	if err := f.checkFreeSpace(expected); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(d.Path, ".grapnel-scratch-*")
	if err != nil {
		return nil, toUnusableError(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, toUnusableError(errors.Join(err, file.Close()))
	}
	f.file = file
	return f, nil
}

// Write appends to the file. The error is ErrUnusable, and ErrFull if a limit is reached
// or no space is left.
func (f *File) Write(p []byte) (int, error) {
	n := int64(len(p))
	if err := f.dir.reserveBytes(n); err != nil {
		return 0, err
	}
	f.size += n
	if f.uncheckedBytes += n; f.uncheckedBytes >= checkInterval {
		f.uncheckedBytes = 0
		if err := f.checkFreeSpace(0); err != nil {
			return 0, err
		}
	}
	written, err := f.file.Write(p)
	if err != nil {
		return written, toUnusableError(err)
	}
	return written, nil
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, offset int64) (int, error) { return f.file.ReadAt(p, offset) }

// Close frees the space of the file.
func (f *File) Close() error {
	err := f.file.Close()
	if err == nil {
		f.dir.releaseBytes(f.size)
	}
	return err
}

// reserveBytes counts bytes that are about to be written.
func (d *Dir) reserveBytes(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Limit > 0 && d.used+n > d.Limit {
		return fmt.Errorf("%w: scratch files have %d bytes, and may have %d together", ErrFull, d.used, d.Limit)
	}
	d.used += n
	return nil
}

func (d *Dir) releaseBytes(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= n
}

// checkFreeSpace returns ErrFull if the volume has not enough space for so many bytes more.
func (f *File) checkFreeSpace(more int64) error {
	statfs := f.dir.statfs
	if statfs == nil {
		statfs = statVolumeSpace
	}
	size, free, err := statfs(cmp.Or(f.dir.Path, os.TempDir()))
	if err != nil {
		return toUnusableError(err)
	}
	keep := int64(minFreeBytes)
	if f.size+more > smallFileBytes {
		keep = max(keep, size/minFreeShare)
	}
	if free-more < keep {
		return fmt.Errorf("%w: its volume has %d bytes free of %d, of which %d are to stay free, and %d more are needed",
			ErrFull, free, size, keep, more)
	}
	return nil
}

// statVolumeSpace asks the system.
func statVolumeSpace(path string) (size, free int64, err error) {
	var volume unix.Statfs_t
	if err := unix.Statfs(path, &volume); err != nil {
		return 0, 0, fmt.Errorf("asking for the free space of %s: %w", path, err)
	}
	block := uint64(volume.Bsize)                                          //nolint:gosec // a size of blocks is positive
	return int64(volume.Blocks * block), int64(volume.Bavail * block), nil //nolint:gosec // no volume has more than 8 EiB
}

// toUnusableError says that an error is one of the directory.
func toUnusableError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}
