// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// archivingLine is what a run logs when its archive phase begins.
var archivingLine = regexp.MustCompile(`^time=(\S+) .*msg="Archiving objects"`)

// archivingSince reads from the log of a backup in the store when its archive
// phase began. Timestamps in the status have seconds only.
func archivingSince(store string, backup *v1alpha1.Backup) (time.Time, error) {
	if backup.Status.Files == nil || backup.Status.Files.Log == "" {
		return time.Time{}, fmt.Errorf("the Backup %s names no log", backup.Name)
	}
	file, err := os.Open(filepath.Join(store, filepath.FromSlash(backup.Status.Files.Log)))
	if err != nil {
		return time.Time{}, fmt.Errorf("opening the log of a backup: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines, err := gzip.NewReader(file)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the log of a backup: %w", err)
	}
	return findArchiving(lines)
}

func findArchiving(log io.Reader) (time.Time, error) {
	scanner := bufio.NewScanner(log)
	for scanner.Scan() {
		match := archivingLine.FindStringSubmatch(scanner.Text())
		if match == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, match[1])
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the log of a backup: %w", err)
		}
		return at, nil
	}
	if err := scanner.Err(); err != nil {
		return time.Time{}, fmt.Errorf("reading the log of a backup: %w", err)
	}
	return time.Time{}, errors.New("the log of a backup does not tell when archiving began")
}
