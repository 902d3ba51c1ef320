// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"maps"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
)

// Cache is what is known of the backups in one location from one look to the next. It
// has a small entry for each that the last list had. Its zero value is ready. It is used
// by one look at a time.
type Cache struct {
	entries map[string]*cacheEntry
	// missingSince says since when removed backups are not in the location any more.
	missingSince map[string]time.Time
}

// cacheEntry is what is known of one stored backup.
type cacheEntry struct {
	// version is what the list said when that was found out.
	version string
	// uid is that of the Backup that made it.
	uid string
	// problem says why it can not be imported.
	problem string
	// unfinished is set if it has not ended.
	unfinished bool
	// unreportable is set if that can not be said on the Backups that wait for it.
	unreportable bool
	// rereadAfter is when it may be read again without a reason, and pause how long that was
	// from the last time on.
	rereadAfter   time.Time
	rereadBackoff time.Duration
}

// pruneEntries drops what is not in the location any more.
func (m *Cache) pruneEntries(listed map[string]bool) {
	maps.DeleteFunc(m.entries, func(name string, _ *cacheEntry) bool { return !listed[name] })
}

// getEntry returns what is known of a backup, nil if it has to be read. What an object was
// made of is believed.
func (m *Cache) getEntry(found backupstore.Entry, objects []*v1alpha1.Backup) *cacheEntry {
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

// putEntry keeps what was found out about a backup.
func (m *Cache) putEntry(found backupstore.Entry, e *cacheEntry) *cacheEntry {
	if m.entries == nil {
		m.entries = map[string]*cacheEntry{}
	}
	e.version = found.Version
	m.entries[found.Name] = e
	return e
}

// maxRereadBackoff bounds the time after which a backup is read again that is not imported.
const maxRereadBackoff = time.Hour

// delayReread puts off the next time that a backup is read without a reason, each time for
// longer.
func (e *cacheEntry) delayReread(before *cacheEntry, shortest time.Duration, now time.Time) {
	e.rereadBackoff = shortest
	if before != nil && before.version == e.version && before.rereadBackoff > 0 {
		e.rereadBackoff = min(2*before.rereadBackoff, max(maxRereadBackoff, shortest))
	}
	e.rereadAfter = now.Add(e.rereadBackoff)
}

// needsReread says whether what is known of a backup is not enough: an object lacks its status,
// there is none and there should be one, or it may have become readable.
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
			return true // what is known may be older than the object
		}
	}
	return !matched && (v.tombstones.ShouldImport(name, e.uid) || (e.version == "" && rested))
}

// needsStalledCondition says whether a Backup waits for its status and was not told why.
func needsStalledCondition(b *v1alpha1.Backup) bool {
	return isPendingImport(b) && !hasStalledCondition(b)
}
