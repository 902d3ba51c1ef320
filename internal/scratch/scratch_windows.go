// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// createUnnamed creates a file that is deleted when it is closed. Windows does not remove the name of an
// open file.
func createUnnamed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".grapnel-scratch-*")
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	opened, err := os.OpenFile(file.Name(), os.O_RDWR|windows.O_FILE_FLAG_DELETE_ON_CLOSE, 0o600)
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return opened, nil
}

// statVolumeSpace returns what this user may use of a volume.
func statVolumeSpace(path string) (size, free int64, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the free space of %s: %w", path, err)
	}
	var available, total uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, &total, nil); err != nil {
		return 0, 0, fmt.Errorf("reading the free space of %s: %w", path, err)
	}
	return int64(min(total, math.MaxInt64)), int64(min(available, math.MaxInt64)), nil
}

// isFull reports whether an error is one of a volume without space.
func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
