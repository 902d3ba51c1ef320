// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// Absent returns those of the paths where there is nothing.
func Absent(paths []string) []string {
	var absent []string
	for _, path := range paths {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, path)
		}
	}
	return absent
}

// InCgroup returns the processes in a control group and in those below it.
func InCgroup(dir string) ([]proc.ID, error) {
	var ids []proc.ID
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		list, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil // The group no longer exists.
		}
		for number := range strings.FieldsSeq(string(list)) {
			pid, _ := strconv.Atoi(number)
			if id, err := proc.Of(pid); err == nil {
				ids = append(ids, id)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing what runs in a control group: %w", err)
	}
	return ids, nil
}

// RemoveCgroup removes a control group with all below it. Nothing must run in them.
// Their files cannot be removed, and need not be.
func RemoveCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking into a control group: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := RemoveCgroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a control group: %w", err)
	}
	return nil
}
