// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Found is what the list of a location tells of a backup.
type Found struct {
	// Name of the backup.
	Name string
	// Version changes whenever one of its manifests does. It is "" if the store does not
	// tell when an object changes, and has no other meaning.
	Version string
}

// Find yields what List does, with what the same requests tell of each backup.
func (s *Store) Find(ctx context.Context) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		// One list of everything costs a request per hundred backups; asking
		// for each manifest would cost one per backup.
		dir := s.prefix + backupsDir
		var in folder
		for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: dir}) {
			if err != nil {
				yield(Found{}, fmt.Errorf("listing backups: %w", err))
				return
			}
			name, base, ok := strings.Cut(strings.TrimPrefix(entry.Key, dir), "/")
			if !ok {
				continue
			}
			if name != in.name {
				if in.isBackup() && !yield(in.found(), nil) {
					return
				}
				in = folder{name: name}
			}
			in.add(base, entry.Info)
		}
		if in.isBackup() {
			yield(in.found(), nil)
		}
	}
}

// folder is what was listed of the folder of a backup, whose files come one after the
// other.
type folder struct {
	name            string
	velero, grapnel *objectstore.Info
}

// add notes a file.
func (f *folder) add(base string, info objectstore.Info) {
	switch base {
	case manifestName:
		f.velero = &info
	case f.name + grapnelSuffix:
		f.grapnel = &info
	}
}

func (f *folder) isBackup() bool { return f.velero != nil && ValidateName(f.name) == nil }

func (f *folder) found() Found {
	found := Found{Name: f.name, Version: f.velero.ETag}
	if found.Version != "" && f.grapnel != nil {
		found.Version += " " + f.grapnel.ETag
	}
	return found
}
