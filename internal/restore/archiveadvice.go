// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// unusableArchiveError explains why nothing of an archive was restored, with a hint.
func unusableArchiveError(backup string, err error) error {
	return fmt.Errorf("nothing was restored, because the archive cannot be used: %w; %s",
		err, adviceForArchive(storage.FileName(backup, storage.Contents), err))
}

// adviceForArchive returns a hint for an error of an archive, which is the given file of
// the backup.
func adviceForArchive(file string, err error) string {
	for _, forged := range []error{archive.ErrInvalidName, archive.ErrDuplicate, archive.ErrTrailingData, archive.ErrAmbiguous} {
		if errors.Is(err, forged) {
			return "no backup writes such an archive: find out who put " + file + " there, and restore another backup"
		}
	}
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return file + " is missing: restore it from a copy or restore another backup"
	case errors.Is(err, archive.ErrLimitExceeded):
		return "find out who put " + file + " there; if a backup did, raise --max-archive-size, otherwise restore another backup"
	case errors.Is(err, scratch.ErrFull):
		return "free space in the directory given by --scratch-dir, or give it a larger volume and raise --max-scratch-size, and restore again"
	case errors.Is(err, scratch.ErrUnusable):
		return "make the directory given by --scratch-dir writable for the operator and restore again"
	}
	return file + " is damaged or was not read to its end: restore again; if that does not help, restore the file from a copy or restore another backup"
}
