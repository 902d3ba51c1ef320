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
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
)

// snapshot is what the cluster has of one location. The objects in it are those of the cache:
// they are not changed.
type snapshot struct {
	takenAt time.Time
	// backups are those of the location, by their name in it.
	backups map[string][]*v1alpha1.Backup
	// pendingDeletions has the names that open DeletionRuns say, of objects and in the location.
	pendingDeletions map[string]bool
	// tombstones are the backups that had a Backup in this cluster.
	tombstones seen.Records
}

// takeSnapshot returns what the cluster has of a location now. What was seen is read last: it
// is noted long before the object goes.
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
		if run.IsFinished(d) || (where != "" && where != bsl.Name) {
			continue
		}
		for _, name := range []string{d.Spec.BackupName, d.Status.BackupName, d.Status.StoredName} {
			v.pendingDeletions[name] = true
		}
	}
	var err error
	v.tombstones, err = seen.LoadRecords(ctx, l.Reader, bsl.Namespace, bsl.Name)
	return v, err
}

// isInUse says whether a stored name is not to be touched now: it is being deleted, or a
// Backup of this cluster that has not ended may take it.
func (v *snapshot) isInUse(name string) bool {
	if v.pendingDeletions[name] {
		return true
	}
	for _, b := range v.backups[name] {
		if v.pendingDeletions[b.Name] || (b.Spec.ImportedFrom == nil && !run.IsFinished(b)) {
			return true
		}
	}
	return false
}

// locationName returns the name of the location in which a Backup is stored; "" if that is
// not known yet.
func locationName(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.StorageLocation
	}
	return cmp.Or(b.Status.StorageLocation, b.Spec.StorageLocation)
}

// creatorUID returns the UID of the Backup that made what a Backup stands for; "" means any.
func creatorUID(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.BackupUID
	}
	return string(b.UID)
}

// matchesUID says whether a Backup stands for what the Backup with that UID stored.
func matchesUID(b *v1alpha1.Backup, uid string) bool {
	of := creatorUID(b)
	return of == uid || (of == "" && b.Spec.ImportedFrom != nil)
}

// isPendingImport says whether a Backup is to get its status from its manifest.
func isPendingImport(b *v1alpha1.Backup) bool {
	return b.Spec.ImportedFrom != nil && !run.IsFinished(b)
}

// hasStalledCondition says whether a bare Backup says why it has no status yet.
func hasStalledCondition(b *v1alpha1.Backup) bool {
	stalled := conditions.Get(b, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == "True" && stalled.ObservedGeneration == b.Generation
}

// isDataMissing says whether the data of a Backup was found to be missing.
func isDataMissing(b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == "False"
}

// shouldHaveData says whether a Backup should have data in its location.
func shouldHaveData(b *v1alpha1.Backup) bool {
	return run.IsFinished(b) && run.IsCompletedOrPartiallyFailed(b)
}

// isVerified says whether a Backup was found to stand for what is stored under its name.
func isVerified(b *v1alpha1.Backup) bool {
	return run.IsFinished(b) && !isDataMissing(b) && (b.Spec.ImportedFrom != nil || run.IsCompletedOrPartiallyFailed(b))
}
