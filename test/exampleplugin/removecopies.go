// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
)

// removeCopies is a DeleteAction: when a backup is deleted, it removes all copies that
// copyOut made for it, also for claims that are not in the archive, for which removeCopy is
// never called. removeCopy is for Velero, which has no DeleteActions.
type removeCopies struct{ copies *copies }

// AppliesTo selects every Backup: any may have copies.
func (removeCopies) AppliesTo(context.Context) (deletev1.Selector, error) {
	return deletev1.Selector{}, nil
}

// Execute removes the copies of one Backup.
func (r removeCopies) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	removed, err := r.copies.removeCopiesOfBackup(ctx, req.Backup.UID)
	if err != nil {
		return err
	}
	sdk.Logger(ctx).Info("Removed the copies of a backup", "backup", req.Backup.Name, "directories", removed)
	return nil
}

// removeCopiesOfBackup stops the transfers of a Backup, removes their copies and partial copies,
// and returns how many directories it removed. Missing directories are not an error.
func (c *copies) removeCopiesOfBackup(ctx context.Context, backup string) (removed int, err error) {
	// The UID becomes part of a path.
	if backup == "" || strings.HasPrefix(backup, ".") || strings.ContainsAny(backup, `/\`) {
		return 0, fmt.Errorf("the UID %q of the Backup is not valid as a directory of copies", backup)
	}
	if err := c.stopTransfers(ctx, backup+"/"); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(c.store)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("opening the directory of copies: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	directories, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("listing the directories of copies: %w", err)
	}
	for _, directory := range directories {
		if name := directory.Name(); name == backup || strings.HasPrefix(name, partialDirName(backup+"/")) {
			if err := root.RemoveAll(name); err != nil {
				return removed, fmt.Errorf("removing copies: %w", err)
			}
			removed++
		}
	}
	return removed, nil
}

// stopTransfers stops the transfers with an ID prefix, and waits until they no longer write.
func (c *copies) stopTransfers(ctx context.Context, prefix string) error {
	c.mu.Lock()
	var stopped []*transfer
	for id, t := range c.running {
		if strings.HasPrefix(id, prefix) {
			t.stop()
			stopped = append(stopped, t)
		}
	}
	c.mu.Unlock()
	for _, t := range stopped {
		select {
		case <-t.ended:
		case <-ctx.Done():
			return fmt.Errorf("waiting until copy %s has stopped: %w", t.id, ctx.Err())
		}
	}
	return nil
}
