// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// snapshot is the state of one location in the cluster. Its objects belong to the cache and must
// not be changed.
type snapshot struct {
	takenAt time.Time
	// backups are the Backups of the location, by stored name.
	backups map[string][]*v1alpha1.Backup
	// pendingDeletions are the names, of objects and stored, in open DeletionRuns.
	pendingDeletions map[string]bool
	// tombstones are the records of the backups that had a Backup in this cluster.
	tombstones tombstone.Records
}

// takeSnapshot returns the current state of a location in the cluster. The tombstones are read last:
// they are written long before the object is removed.
func (l *Syncer) takeSnapshot(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*snapshot, error) {
	v := &snapshot{takenAt: l.Now(), backups: map[string][]*v1alpha1.Backup{}, pendingDeletions: map[string]bool{}}
	var backups v1alpha1.BackupList
	if err := l.Client.List(ctx, &backups, client.InNamespace(bsl.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Backups: %w", err)
	}
	for i := range backups.Items {
		if b := &backups.Items[i]; locationName(b) == bsl.Name {
			v.backups[b.StoredName()] = append(v.backups[b.StoredName()], b)
		}
	}
	var deletions v1alpha1.DeletionRunList
	if err := l.Client.List(ctx, &deletions, client.InNamespace(bsl.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	for i := range deletions.Items {
		d := &deletions.Items[i]
		where := cmp.Or(d.Status.StorageLocation, d.Spec.StorageLocation)
		if lifecycle.IsFinished(d) || (where != "" && where != bsl.Name) {
			continue
		}
		for _, name := range []string{d.Spec.BackupName, d.Status.BackupName, d.Status.StoredName} {
			v.pendingDeletions[name] = true
		}
	}
	var err error
	v.tombstones, err = tombstone.LoadRecords(ctx, l.Reader, bsl.Namespace, bsl.Name)
	return v, err
}

// isInUse reports whether a stored name must not be touched now: it is being deleted, or an
// unfinished Backup of this cluster may take it.
func (v *snapshot) isInUse(name string) bool {
	if v.pendingDeletions[name] {
		return true
	}
	for _, b := range v.backups[name] {
		if v.pendingDeletions[b.Name] || (b.Spec.ImportedFrom == nil && !lifecycle.IsFinished(b)) {
			return true
		}
	}
	return false
}

// locationName returns the name of the location in which a Backup is stored; "" if it is not
// known yet.
func locationName(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.StorageLocation
	}
	return cmp.Or(b.Status.StorageLocation, b.Spec.StorageLocation)
}

// creatorUID returns the UID of the Backup that made the backup that b represents; "" means any.
func creatorUID(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.BackupUID
	}
	return string(b.UID)
}

// matchesUID reports whether a Backup represents the backup that the Backup with that UID stored.
func matchesUID(b *v1alpha1.Backup, uid string) bool {
	of := creatorUID(b)
	return of == uid || (of == "" && b.Spec.ImportedFrom != nil)
}

// isPendingImport reports whether a Backup waits for its status from its manifest.
func isPendingImport(b *v1alpha1.Backup) bool {
	return b.Spec.ImportedFrom != nil && !lifecycle.IsFinished(b)
}

// hasStalledCondition reports whether a pending import says why it has no status yet.
func hasStalledCondition(b *v1alpha1.Backup) bool {
	stalled := conditions.Get(b, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == "True" && stalled.ObservedGeneration == b.Generation
}

// isDataMissing reports whether the data of a Backup was found to be missing.
func isDataMissing(b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == "False"
}

// shouldHaveData reports whether a Backup should have data in its location.
func shouldHaveData(b *v1alpha1.Backup) bool {
	return lifecycle.IsFinished(b) && lifecycle.IsCompletedOrPartiallyFailed(b)
}

// isVerified reports whether a Backup was found to represent the backup stored under its name.
func isVerified(b *v1alpha1.Backup) bool {
	return lifecycle.IsFinished(b) && !isDataMissing(b) && (b.Spec.ImportedFrom != nil || lifecycle.IsCompletedOrPartiallyFailed(b))
}
