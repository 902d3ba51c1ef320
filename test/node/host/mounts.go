// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UnmountBelow unmounts everything that is mounted at a directory or below it, the last
// first. What is in use goes as soon as it no longer is.
func UnmountBelow(dir string) error {
	// A mount may lie under another one and show only when that is gone.
	const rounds = 5
	for range rounds {
		info, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return fmt.Errorf("reading what is mounted: %w", err)
		}
		points := mountsBelow(string(info), dir)
		if len(points) == 0 {
			return nil
		}
		var errs []error
		for _, point := range points {
			err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			// It went with another one.
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return fmt.Errorf("something is still mounted below %s", dir)
}

// mountsBelow returns the mount points at and below a directory, the last mounted first.
func mountsBelow(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		const point = 4 // See proc_pid_mountinfo(5).
		fields := strings.Fields(line)
		if len(fields) <= point {
			continue
		}
		path := unescape(fields[point])
		if path == dir || strings.HasPrefix(path, dir+"/") {
			points = append([]string{path}, points...)
		}
	}
	return points
}

// unescape undoes the kernel's octal escapes of spaces, tabs, line breaks, backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		const length = 4 // \040
		if s[i] == '\\' && i+length <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+length], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += length - 1
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
