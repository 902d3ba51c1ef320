// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Entry is a backup in the list of a location.
type Entry struct {
	// Name of the backup.
	Name string
	// Version changes whenever one of its manifests does. It is "" if the store does not
	// report changes of objects, and has no other meaning.
	Version string
	// Stored is when velero-backup.json was stored, by the clock of the store; zero if the
	// store does not report it.
	Stored time.Time
}

// ListEntries yields the backups of ListNames, with the details that the same requests
// return.
func (s *Store) ListEntries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// One list of everything costs a request per hundred backups. A request for each
		// manifest would cost one per backup.
		dir := s.prefix + backupsDir
		var in backupDirectory
		for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: dir}) {
			if err != nil {
				yield(Entry{}, fmt.Errorf("listing backups: %w", err))
				return
			}
			name, base, ok := strings.Cut(strings.TrimPrefix(entry.Key, dir), "/")
			if !ok {
				continue
			}
			if name != in.name {
				if in.isBackup() && !yield(in.toEntry(), nil) {
					return
				}
				in = backupDirectory{name: name}
			}
			in.addListedFile(base, entry.Info)
		}
		if in.isBackup() {
			yield(in.toEntry(), nil)
		}
	}
}

// backupDirectory is the listed directory of a backup. The list has its files one after the
// other.
type backupDirectory struct {
	name            string
	velero, grapnel *objectstore.Info
}

// addListedFile records a file.
func (f *backupDirectory) addListedFile(base string, info objectstore.Info) {
	switch base {
	case manifestName:
		f.velero = &info
	case f.name + grapnelSuffix:
		f.grapnel = &info
	}
}

func (f *backupDirectory) isBackup() bool { return f.velero != nil && ValidateName(f.name) == nil }

func (f *backupDirectory) toEntry() Entry {
	found := Entry{Name: f.name, Version: f.velero.ETag, Stored: f.velero.ModTime}
	if found.Version != "" && f.grapnel != nil {
		found.Version += " " + f.grapnel.ETag
	}
	return found
}
