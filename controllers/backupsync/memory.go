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

// Memory is what is known of the backups in one location from one look to the next. It
// has a small entry for each that the last list had. Its zero value is ready. It is used
// by one look at a time.
type Memory struct {
	entries map[string]*entry
	// lost says since when removed backups are not in the location any more.
	lost map[string]time.Time
}

// entry is what is known of one stored backup.
type entry struct {
	// version is what the list said when that was found out.
	version string
	// uid is that of the Backup that made it.
	uid string
	// problem says why it can not be imported.
	problem string
	// open is set if it has not ended.
	open bool
	// mute is set if that can not be said on the Backups that wait for it.
	mute bool
	// again is when it may be read again without a reason, and pause how long that was
	// from the last time on.
	again time.Time
	pause time.Duration
}

// forget drops what is not in the location any more.
func (m *Memory) forget(listed map[string]bool) {
	maps.DeleteFunc(m.entries, func(name string, _ *entry) bool { return !listed[name] })
}

// recall returns what is known of a backup, nil if it has to be read. What an object was
// made of is believed.
func (m *Memory) recall(found backupstore.Found, objects []*v1alpha1.Backup) *entry {
	if known := m.entries[found.Name]; known != nil {
		if known.version != found.Version {
			return nil
		}
		return known
	}
	var trusted *v1alpha1.Backup
	for _, b := range objects {
		switch {
		case !isTrusted(b):
		case trusted != nil && uidOf(trusted) != uidOf(b):
			return nil
		default:
			trusted = b
		}
	}
	if trusted == nil {
		return nil
	}
	return m.learn(found, &entry{uid: uidOf(trusted)})
}

// learn keeps what was found out about a backup.
func (m *Memory) learn(found backupstore.Found, e *entry) *entry {
	if m.entries == nil {
		m.entries = map[string]*entry{}
	}
	e.version = found.Version
	m.entries[found.Name] = e
	return e
}

// maxPause bounds the time after which a backup is read again that is not imported.
const maxPause = time.Hour

// delay puts off the next time that a backup is read without a reason, each time for
// longer.
func (e *entry) delay(before *entry, shortest time.Duration, now time.Time) {
	e.pause = shortest
	if before != nil && before.version == e.version && before.pause > 0 {
		e.pause = min(2*before.pause, max(maxPause, shortest))
	}
	e.again = now.Add(e.pause)
}

// isDue says whether what is known of a backup is not enough: an object lacks its status,
// there is none and there should be one, or it may have become readable.
func (e *entry) isDue(name string, v *view, now time.Time) bool {
	rested := !now.Before(e.again)
	if e.problem != "" || e.open {
		return rested || (!e.mute && slices.ContainsFunc(v.backups[name], isNew))
	}
	matched := false
	for _, b := range v.backups[name] {
		switch {
		case isNew(b), rested && isBare(b):
			return true
		case standsFor(b, e.uid):
			matched = true
		case hasData(b) && !isMarked(b):
			return true // what is known may be older than the object
		}
	}
	return !matched && (v.seen.Wants(name, e.uid) || (e.version == "" && rested))
}

// isNew says whether a Backup waits for its status and was not told why.
func isNew(b *v1alpha1.Backup) bool { return isBare(b) && !wasTold(b) }
