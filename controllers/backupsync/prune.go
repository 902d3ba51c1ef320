// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// markMissingData marks the Backups whose data is no longer in the location.
func (l *locationSync) markMissingData(ctx context.Context, listed map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(l.snapshot.backups)) {
		if listed[name] || l.snapshot.isInUse(name) {
			continue
		}
		affected := slices.DeleteFunc(slices.Clone(l.snapshot.backups[name]), func(b *v1alpha1.Backup) bool { return !l.shouldMarkMissing(b) })
		if len(affected) == 0 {
			continue
		}
		if gone, err := l.isBackupMissing(ctx, name); err != nil || !gone {
			if err != nil {
				return err
			}
			continue
		}
		for _, b := range affected {
			err := l.reportDataMissing(ctx, b)
			if errors.Is(err, errRejected) {
				l.report.addUnreadable(name, l.redactedLine(err.Error()))
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// shouldMarkMissing reports whether a Backup that was not listed should have been listed, and is not
// marked yet.
func (l *locationSync) shouldMarkMissing(b *v1alpha1.Backup) bool {
	switch {
	case b.DeletionTimestamp != nil:
		return false
	case isPendingImport(b):
		return !hasStalledCondition(b)
	case !shouldHaveData(b) || isDataMissing(b):
		return false
	case b.Spec.ImportedFrom != nil:
		return b.CreationTimestamp.Time.Before(l.startTime)
	}
	return b.Status.CompletionTimestamp.Time.Before(l.startTime)
}

// isBackupMissing checks in the store itself whether a backup is missing.
func (l *locationSync) isBackupMissing(ctx context.Context, name string) (bool, error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, _, err := l.store.ReadManifest(reading, name)
	if err := l.locationError(ctx, err); err != nil {
		return false, err
	}
	return errors.Is(err, objectstore.ErrNotExist) || errors.Is(err, storage.ErrInvalidName), nil
}

// pruneTombstones deletes tombstones of backups that have not been stored for a while. If nothing
// at all is stored, no tombstone is deleted: a volume that is not mounted looks empty.
func (l *locationSync) pruneTombstones(ctx context.Context, listed map[string]bool) error {
	if len(listed) == 0 {
		l.cache.missingSince = nil
		return nil
	}
	lost, gone := map[string]time.Time{}, map[string]bool{}
	for name := range l.snapshot.tombstones {
		if listed[name] {
			continue
		}
		since, known := l.cache.missingSince[name]
		if !known {
			since = l.Now()
		}
		lost[name] = since
		if l.Now().Sub(since) < missingGracePeriod {
			continue
		}
		is, err := l.isBackupMissing(ctx, name)
		if err != nil {
			return err
		}
		if is {
			gone[name] = true
		}
	}
	l.cache.missingSince = lost
	if len(gone) == 0 {
		return nil
	}
	return tombstone.PruneRecords(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name, func(name string) bool { return !gone[name] })
}
