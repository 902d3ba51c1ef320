//go:build unix

// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed creates a file that is deleted when it is closed.
func createUnnamed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".grapnel-scratch-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// statVolumeSpace calls statfs(2).
func statVolumeSpace(path string) (size, free int64, err error) {
	var volume unix.Statfs_t
	if err := unix.Statfs(path, &volume); err != nil {
		return 0, 0, fmt.Errorf("reading the free space of %s: %w", path, err)
	}
	block := uint64(volume.Bsize)                                          //nolint:gosec // a block size is positive
	return int64(volume.Blocks * block), int64(volume.Bavail * block), nil //nolint:gosec // no volume has more than 8 EiB
}

// isFull reports whether an error is one of a volume without space.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
