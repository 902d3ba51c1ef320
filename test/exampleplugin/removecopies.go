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

// removeCopies is a DeleteAction: when a backup is deleted, it removes all that copyOut made
// for it, also for claims that did not get into the archive, which removeCopy is never shown.
// That one remains for Velero, which has no DeleteActions.
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
	sdk.Logger(ctx).Info("Removed the copies of a backup", "backup", req.Backup.Name, "folders", removed)
	return nil
}

// removeCopiesOfBackup stops the transfers of a Backup, removes their copies and what interrupted ones
// left, and returns how many folders there were. What is gone already is no error.
func (c *copies) removeCopiesOfBackup(ctx context.Context, backup string) (removed int, err error) {
	// It becomes part of a path.
	if backup == "" || strings.HasPrefix(backup, ".") || strings.ContainsAny(backup, `/\`) {
		return 0, fmt.Errorf("the UID %q of the Backup cannot be that of a folder of copies", backup)
	}
	if err := c.stopTransfers(ctx, backup+"/"); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(c.store)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("opening the folder of copies: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	folders, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("listing the folders of copies: %w", err)
	}
	for _, folder := range folders {
		if name := folder.Name(); name == backup || strings.HasPrefix(name, partialDirName(backup+"/")) {
			if err := root.RemoveAll(name); err != nil {
				return removed, fmt.Errorf("removing copies: %w", err)
			}
			removed++
		}
	}
	return removed, nil
}

// stopTransfers stops the transfers whose IDs begin so, and waits until they write nothing any more.
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
