// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// newID returns the ID of what has this name. It depends on nothing else, so that a call that is
// repeated after a restart finds what the first one has created.
func newID(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + "-" + hex.EncodeToString(sum[:16])
}

// removeIncomplete removes data without a record, and members of groups that have none.
func removeIncomplete(dir driverdir.Dir) error {
	snapshots, err := driverdir.List[driverdir.Snapshot](dir)
	if err != nil {
		return err
	}
	for _, snapshot := range snapshots {
		if snapshot.GroupID == "" {
			continue
		}
		_, found, err := driverdir.Load[driverdir.Group](dir, snapshot.GroupID)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if err := driverdir.Remove[driverdir.Snapshot](dir, snapshot.ID); err != nil {
			return err
		}
	}
	if err := removeUnrecorded[driverdir.Volume](dir); err != nil {
		return err
	}
	return removeUnrecorded[driverdir.Snapshot](dir)
}

func removeUnrecorded[R driverdir.Volume | driverdir.Snapshot](dir driverdir.Dir) error {
	parent := filepath.Dir(driverdir.DataPath[R](dir, "any"))
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".json" {
			continue
		}
		_, found, err := driverdir.Load[R](dir, entry.Name())
		if err == nil && !found {
			err = os.RemoveAll(filepath.Join(parent, entry.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pageOf returns the records from a token on, at most limit of them unless that is 0, and the token
// of those that follow.
func pageOf[R any](records []R, token string, limit int32) (page []R, next string, err error) {
	first := 0
	if token != "" {
		first, err = strconv.Atoi(token)
		if err != nil || first < 0 || first > len(records) {
			return nil, "", status.Errorf(codes.Aborted, "there is no page with the token %q: list from the beginning", token)
		}
	}
	if limit < 0 {
		return nil, "", status.Error(codes.InvalidArgument, "the limit of entries is negative")
	}
	end := len(records)
	if limit > 0 && first+int(limit) < end {
		end = first + int(limit)
		next = strconv.Itoa(end)
	}
	return records[first:end], next, nil
}
