// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
)

const (
	// checkInterval is how many bytes of a file are written between two checks of the free
	// space.
	checkInterval = 8 << 20
	// smallFileBytes is the size up to which a file needs only minFreeBytes, so that a node
	// with a nearly full disk can still restore small backups.
	smallFileBytes = 64 << 20
	minFreeBytes   = 64 << 20
	// minFreeShare is the part of the volume that stays free, a tenth: the kubelet evicts
	// pods when less is free.
	minFreeShare = 10
)

// ErrUnusable means that a file could not be created, written or read, for a reason other
// than its content.
var ErrUnusable = errors.New("the directory given by --scratch-dir cannot be used")

// ErrFull means that there is no space for a file. An ErrFull is also an ErrUnusable.
var ErrFull = fmt.Errorf("%w: no space is left", ErrUnusable)

// Dir is a directory for scratch files. It is safe for concurrent use. The zero value uses
// the system's directory for temporary files, without a limit.
type Dir struct {
	// Path of the directory.
	Path string
	// Limit is the maximum size of all open files together; 0 means that only the volume
	// limits them.
	Limit int64

	// statfs returns the size and the free space of the volume of a path, in bytes.
	statfs func(path string) (size, free int64, err error)

	mu   sync.Mutex
	used int64
}

// File is a file without a name: no other process can change it, and it is deleted with the
// process. One goroutine may write at a time; ReadAt may be called concurrently.
type File struct {
	dir            *Dir
	file           *os.File
	size           int64
	uncheckedBytes int64
}

// CreateFile creates a file for content of about the expected size; 0 means unknown. The
// error is ErrFull if there is not enough space.
func (d *Dir) CreateFile(expected int64) (*File, error) {
	f := &File{dir: d}
	if err := f.checkFreeSpace(expected); err != nil {
		return nil, err
	}
	file, err := createUnnamed(d.Path)
	if err != nil {
		return nil, toUnusableError(err)
	}
	f.file = file
	return f, nil
}

// Write appends to the file. The error is ErrUnusable, and also ErrFull if a limit is
// reached or no space is left.
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

// reserveBytes counts bytes before they are written.
func (d *Dir) reserveBytes(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Limit > 0 && d.used+n > d.Limit {
		return fmt.Errorf("%w: the scratch files have %d bytes; their limit is %d", ErrFull, d.used, d.Limit)
	}
	d.used += n
	return nil
}

func (d *Dir) releaseBytes(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= n
}

// checkFreeSpace returns ErrFull if the volume does not have enough space for more bytes.
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
		return fmt.Errorf("%w: its volume has %d bytes free of %d, of which %d must stay free, and %d more are needed",
			ErrFull, free, size, keep, more)
	}
	return nil
}

// toUnusableError marks an error as one of the directory.
func toUnusableError(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}
