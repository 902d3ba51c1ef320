// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Entry is what the list of a location tells of a backup.
type Entry struct {
	// Name of the backup.
	Name string
	// Version changes whenever one of its manifests does. It is "" if the store does not
	// tell when an object changes, and has no other meaning.
	Version string
	// Stored is when the manifest of Velero's form was stored, by the clock of the store;
	// zero if the store does not tell.
	Stored time.Time
}

// ListEntries yields what List does, with what the same requests tell of each backup.
func (s *Store) ListEntries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// One list of everything costs a request per hundred backups; asking
		// for each manifest would cost one per backup.
		dir := s.prefix + backupsDir
		var in backupFolder
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
				in = backupFolder{name: name}
			}
			in.addListedFile(base, entry.Info)
		}
		if in.isBackup() {
			yield(in.toEntry(), nil)
		}
	}
}

// backupFolder is what was listed of the directory of a backup, whose files come one after the
// other.
type backupFolder struct {
	name            string
	velero, grapnel *objectstore.Info
}

// addListedFile notes a file.
func (f *backupFolder) addListedFile(base string, info objectstore.Info) {
	switch base {
	case manifestName:
		f.velero = &info
	case f.name + grapnelSuffix:
		f.grapnel = &info
	}
}

func (f *backupFolder) isBackup() bool { return f.velero != nil && ValidateName(f.name) == nil }

func (f *backupFolder) toEntry() Entry {
	found := Entry{Name: f.name, Version: f.velero.ETag, Stored: f.velero.ModTime}
	if found.Version != "" && f.grapnel != nil {
		found.Version += " " + f.grapnel.ETag
	}
	return found
}
