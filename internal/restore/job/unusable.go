// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// unusable says why nothing of an archive was restored, and what to do.
func unusable(backup string, err error) error {
	return fmt.Errorf("nothing was restored, because the archive can not be used: %w; %s",
		err, advice(backupstore.FileName(backup, backupstore.Contents), err))
}

// advice says what a person can do about an archive, which is that file of the
// backup.
func advice(file string, err error) string {
	for _, forged := range []error{archive.ErrInvalidName, archive.ErrDuplicate, archive.ErrTrailingData, archive.ErrAmbiguous} {
		if errors.Is(err, forged) {
			return "no backup writes such an archive: find out who put " + file + " there, and restore another backup"
		}
	}
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return file + " is missing: bring it back from a copy or restore another backup"
	case errors.Is(err, archive.ErrLimit):
		return "find out who put " + file + " there; if a backup did, raise --max-archive-size, otherwise restore another backup"
	case errors.Is(err, syscall.ENOSPC):
		return "make room in the folder of --scratch-dir and restore again"
	}
	return file + " is damaged or was not read to its end: restore again; if that does not help, bring back the file from a copy or restore another backup"
}
