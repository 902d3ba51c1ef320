// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// Cache is what is known of the backups in one location between syncs. It has a small entry
// for each backup in the last list. Its zero value is ready to use. Only one sync uses it at
// a time.
type Cache struct {
	entries map[string]*cacheEntry
	// missingSince is since when tombstones have had no stored backup in the location.
	missingSince map[string]time.Time
}

// cacheEntry is what is known of one stored backup.
type cacheEntry struct {
	// version is the version from the list when the entry was created.
	version string
	// uid is the UID of the Backup that made it.
	uid string
	// problem is why it cannot be imported.
	problem string
	// unfinished is set if the backup has not finished.
	unfinished bool
	// unreportable is set if the problem cannot be recorded on the Backups that wait for it.
	unreportable bool
	// rereadAfter is when the manifest may be read again without a change, and rereads how
	// often that was postponed.
	rereadAfter time.Time
	rereads     int
}

// pruneEntries drops backups that are no longer in the location.
func (m *Cache) pruneEntries(listed map[string]bool) {
	maps.DeleteFunc(m.entries, func(name string, _ *cacheEntry) bool { return !listed[name] })
}

// getEntry returns what is known of a backup; nil if its manifest must be read. The metadata of
// an object that was created from the manifest is trusted.
func (m *Cache) getEntry(found storage.Entry, objects []*v1alpha1.Backup) *cacheEntry {
	if known := m.entries[found.Name]; known != nil {
		if known.version != found.Version {
			return nil
		}
		return known
	}
	var trusted *v1alpha1.Backup
	for _, b := range objects {
		switch {
		case !isVerified(b):
		case trusted != nil && creatorUID(trusted) != creatorUID(b):
			return nil
		default:
			trusted = b
		}
	}
	if trusted == nil {
		return nil
	}
	return m.putEntry(found, &cacheEntry{uid: creatorUID(trusted)})
}

// putEntry stores what is known of a backup.
func (m *Cache) putEntry(found storage.Entry, e *cacheEntry) *cacheEntry {
	if m.entries == nil {
		m.entries = map[string]*cacheEntry{}
	}
	e.version = found.Version
	m.entries[found.Name] = e
	return e
}

// maxRereadBackoff limits the wait before the manifest of a backup that is not imported is read again.
const maxRereadBackoff = time.Hour

// delayReread postpones the next read of an unchanged manifest, each time for longer.
func (e *cacheEntry) delayReread(before *cacheEntry, shortest time.Duration, now time.Time) {
	e.rereads = 1
	if before != nil && before.version == e.version {
		e.rereads += before.rereads
	}
	delays := wait.Backoff{Duration: shortest, Factor: 2, Cap: max(maxRereadBackoff, shortest)}
	e.rereadAfter = now.Add(backoff.Delay(delays, e.rereads))
}

// needsReread reports whether the entry is not enough: an object lacks its status, an object is
// missing, or the manifest may have become readable.
func (e *cacheEntry) needsReread(name string, v *snapshot, now time.Time) bool {
	rested := !now.Before(e.rereadAfter)
	if e.problem != "" || e.unfinished {
		return rested || (!e.unreportable && slices.ContainsFunc(v.backups[name], needsStalledCondition))
	}
	matched := false
	for _, b := range v.backups[name] {
		switch {
		case needsStalledCondition(b), rested && isPendingImport(b):
			return true
		case matchesUID(b, e.uid):
			matched = true
		case shouldHaveData(b) && !isDataMissing(b):
			return true // the entry may be older than the object
		}
	}
	return !matched && (v.tombstones.ShouldImport(name, e.uid) || (e.version == "" && rested))
}

// needsStalledCondition reports whether a Backup waits for its status and does not say why.
func needsStalledCondition(b *v1alpha1.Backup) bool {
	return isPendingImport(b) && !hasStalledCondition(b)
}
