// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// Store is the part of a location that a sync reads; *storage.Store implements it.
type Store interface {
	// ListEntries lists the backups.
	ListEntries(ctx context.Context) iter.Seq2[storage.Entry, error]
	// ReadManifest reads the manifests of one backup.
	ReadManifest(ctx context.Context, name string) ([]byte, *storage.GrapnelManifest, error)
}

// Limiter limits the rate of writes. Several syncs share it.
type Limiter interface {
	// Wait waits until a write is allowed, or for the end of ctx.
	Wait(ctx context.Context) error
}

// Syncer compares locations with the Backups of the cluster. Every field is required. It
// is safe for concurrent use.
type Syncer struct {
	// Client reads from a cache, Reader bypasses it.
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Limiter limits how fast objects are created and changed.
	Limiter Limiter
	// RereadBackoff is the shortest time after which a backup that could not be imported is read
	// again; it grows up to an hour.
	RereadBackoff time.Duration
	// Now is the clock.
	Now func() time.Time
}

const (
	// maxListed is how many backups of a location a sync reads.
	maxListed = 100_000
	// listTimeout and readTimeout limit calls of a store.
	listTimeout = 10 * time.Minute
	readTimeout = time.Minute
	// maxSlowReads is how many manifests in a row may exceed readTimeout.
	maxSlowReads = 3
	// flushTimeout limits how long an interrupted sync may take to record what it did.
	flushTimeout = 5 * time.Second
	// maxSnapshotAge is the maximum age of the snapshot during an import.
	maxSnapshotAge = 5 * time.Second
	// missingGracePeriod is how long a tombstone is kept whose backup is not stored any more: a
	// volume that is not mounted looks empty.
	missingGracePeriod = time.Hour
)

// locationSync is one sync of a location.
type locationSync struct {
	*Syncer
	store     Store
	bsl       *v1alpha1.BackupStorageLocation
	cache     *Cache
	snapshot  *snapshot
	budget    *importBudget
	report    *Report
	startTime time.Time
	// slowReads counts the manifests in a row whose reading took too long.
	slowReads int
	// importedBackups are the backups that this sync imported.
	importedBackups tombstone.Records
}

// Sync imports the backups of a location into the cluster, and marks Backups whose data is missing.
// Store is the store of the location. Sync may take as long as the limiter makes it. It can be
// interrupted by ctx at any time, and repeated. Backups that cannot be imported are no error, but
// are listed in the Report.
func (l *Syncer) Sync(ctx context.Context, store Store, bsl *v1alpha1.BackupStorageLocation, memory *Cache) (Report, error) {
	at := &locationSync{Syncer: l, store: store, bsl: bsl, cache: memory, report: &Report{Renamed: map[string]string{}}, startTime: l.Now(), importedBackups: tombstone.Records{}}
	found, err := at.listStoredBackups(ctx)
	if err == nil {
		at.snapshot, err = l.takeSnapshot(ctx, bsl)
	}
	if err == nil {
		err = at.annotateLegacyImports(ctx)
	}
	if err != nil {
		return *at.report, err
	}
	listed := make(map[string]bool, len(found))
	for _, f := range found {
		listed[f.Name] = true
	}
	at.budget = at.snapshot.newImportBudget(found, bsl.Spec.MaxImportedBackups(), bsl.Spec.IsImportDisabled())
	at.report.Limit, at.report.Disabled = at.budget.limit, bsl.Spec.IsImportDisabled()
	if err = at.removeSurplus(ctx); err == nil {
		err = at.syncAllBackups(ctx, found, listed)
	}
	at.report.Excluded = len(at.budget.excluded)
	// An interrupted sync records its imports too: a user may remove them before the next sync.
	if !errors.Is(context.Cause(ctx), errLocationChanged) {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		err = errors.Join(err, at.updateTombstones(flushing, listed))
	}
	for name, objects := range at.snapshot.backups {
		for _, b := range objects {
			if b.Spec.ImportedFrom != nil && b.Name != name {
				at.report.Renamed[b.Name] = name
			}
		}
	}
	return *at.report, err
}

// syncAllBackups compares all stored backups.
func (l *locationSync) syncAllBackups(ctx context.Context, found []storage.Entry, listed map[string]bool) error {
	compared := map[string]bool{}
	for _, f := range found {
		if l.budget.excluded[f.Name] || (l.budget.remaining == 0 && l.snapshot.isUnknownBackup(f.Name)) {
			l.budget.excluded[f.Name] = true
			continue
		}
		compared[f.Name] = true
		if err := l.syncBackup(ctx, f); err != nil {
			return err
		}
	}
	l.cache.pruneEntries(compared)
	if l.report.Truncated {
		return nil // backups that were not listed may exist
	}
	if err := l.markMissingData(ctx, listed); err != nil {
		return err
	}
	return l.pruneTombstones(ctx, listed)
}

// listStoredBackups returns the backups of the location, up to maxListed.
func (l *locationSync) listStoredBackups(ctx context.Context) ([]storage.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all []storage.Entry
	for found, err := range l.store.ListEntries(ctx) {
		if err != nil {
			return nil, err
		}
		if len(all) == maxListed {
			l.report.Truncated = true
			break
		}
		all = append(all, found)
	}
	l.report.Found = len(all)
	return all, nil
}

// syncBackup ensures that one stored backup has its object.
func (l *locationSync) syncBackup(ctx context.Context, found storage.Entry) error {
	if l.snapshot.isInUse(found.Name) {
		return nil
	}
	known, b := l.cache.getEntry(found, l.snapshot.backups[found.Name]), (*v1alpha1.Backup)(nil)
	if known == nil || known.needsReread(found.Name, l.snapshot, l.Now()) {
		var err error
		if known, b, err = l.readEntry(ctx, found); known == nil || err != nil {
			return err
		}
	}
	if known.problem == "" && !known.unfinished {
		err := l.matchOrImport(ctx, found.Name, known, b)
		switch {
		case errors.Is(err, errRejected):
			known.problem = l.redactedLine(err.Error())
		case err != nil:
			return err
		}
	}
	return l.reportNotImported(ctx, found.Name, known)
}

// reportNotImported records why a stored backup has no Backup with a status, if it has none.
func (l *locationSync) reportNotImported(ctx context.Context, name string, known *cacheEntry) error {
	var reason, message string
	switch {
	case known.problem != "":
		l.report.addUnreadable(name, known.problem)
		reason = v1alpha1.ReasonBackupsUnreadable
		message = fmt.Sprintf("The manifest in BackupStorageLocation %s cannot be used: %s", l.bsl.Name, known.problem)
	case known.unfinished:
		reason = v1alpha1.ReasonWaitingForBackup
		message = fmt.Sprintf("The backup in BackupStorageLocation %s has not finished; its status is shown here when it has", l.bsl.Name)
	}
	if reason == "" || known.unreportable {
		return nil
	}
	err := l.stallPendingImports(ctx, name, reason, message)
	if !errors.Is(err, errRejected) {
		return err
	}
	known.unreportable = true
	if known.problem == "" {
		known.problem = l.redactedLine(err.Error())
		l.report.addUnreadable(name, known.problem)
	}
	return nil
}

// matchOrImport compares the objects of a name with the backup that is stored under it, and imports
// the backup if no object represents it. b is nil if no status needs to be written.
func (l *locationSync) matchOrImport(ctx context.Context, name string, known *cacheEntry, b *v1alpha1.Backup) error {
	matched := false
	for _, object := range l.snapshot.backups[name] {
		var err error
		switch stands := matchesUID(object, known.uid); {
		case stands && isPendingImport(object):
			matched = true
			if b != nil {
				err = l.completeImport(ctx, object, b, known)
			}
		case stands:
			matched = true
			err = l.markDataAvailable(ctx, object)
		case isPendingImport(object):
			err = l.stallPendingImport(ctx, object, v1alpha1.ReasonDataMissing,
				fmt.Sprintf("BackupStorageLocation %s contains another backup under this name: that of the Backup with UID %s", l.bsl.Name, known.uid))
		case shouldHaveData(object):
			err = l.markDataMissing(ctx, object, fmt.Sprintf("BackupStorageLocation %s contains another backup under this name; the data of this Backup is missing", l.bsl.Name))
		}
		if err != nil || known.problem != "" {
			return err
		}
	}
	if matched || b == nil || !l.snapshot.tombstones.ShouldImport(name, known.uid) {
		return nil
	}
	if l.budget.remaining == 0 || l.bsl.Spec.IsImportDisabled() {
		l.budget.excluded[name] = true
		return nil
	}
	return l.importBackup(ctx, name, known, b)
}
