// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/names"
)

// maxDeletionRunName leaves room for names that are derived from the name of a DeletionRun.
const maxDeletionRunName = 63

// nameSuffixes are the suffixes of the names of DeletionRuns, before a hash.
var nameSuffixes = map[v1alpha1.DeletionCause]string{
	v1alpha1.DeletionCauseExpired:       "expired",
	v1alpha1.DeletionCauseBackupDeleted: "deleted",
	v1alpha1.DeletionCauseScheduleLimit: "limit",
}

// NewDeletionRun returns a DeletionRun for a Backup. The name is the same for the same Backup and
// cause, which makes creating it twice harmless.
func NewDeletionRun(b *v1alpha1.Backup, cause v1alpha1.DeletionCause) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: names.ChildName(b.Name+"-"+nameSuffixes[cause], maxDeletionRunName, string(b.UID), string(cause)),
			Labels:     map[string]string{v1alpha1.LabelBackupName: names.LabelValue(b.Name)},
			Finalizers: []string{v1alpha1.FinalizerRun},
		},
		Spec: v1alpha1.DeletionRunSpec{BackupName: b.Name, BackupUID: string(b.UID), Cause: cause},
	}
}

// backupNameField selects the DeletionRuns of a Backup.
const backupNameField = "spec.backupName"

// IndexDeletionRuns lets [ListDeletionRuns] find DeletionRuns in a cache that has not started. A
// thousand backups may expire at once, and each event of each would otherwise read all DeletionRuns.
func IndexDeletionRuns(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.DeletionRun{}, backupNameField, func(object client.Object) []string {
		d, ok := object.(*v1alpha1.DeletionRun)
		if !ok {
			return nil
		}
		return BackupNames(d)
	})
	if err != nil {
		return fmt.Errorf("indexing the DeletionRuns: %w", err)
	}
	return nil
}

// BackupNames returns the name of the backup that a DeletionRun destroys, and that of its Backup if it
// has another one.
func BackupNames(d *v1alpha1.DeletionRun) []string {
	if d.Status.BackupName == "" || d.Status.BackupName == d.Spec.BackupName {
		return []string{d.Spec.BackupName}
	}
	return []string{d.Spec.BackupName, d.Status.BackupName}
}

// ListDeletionRuns returns the DeletionRuns of a namespace that have one of the names, in the sense of
// [BackupNames] if the reader is a cache with the index of [IndexDeletionRuns]. The API server compares
// only spec.backupName. The caller must not change the result.
func ListDeletionRuns(ctx context.Context, reader client.Reader, namespace string, names ...string) ([]v1alpha1.DeletionRun, error) {
	var found []v1alpha1.DeletionRun
	for _, name := range names {
		var list v1alpha1.DeletionRunList
		err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{backupNameField: name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the DeletionRuns of Backup %s: %w", name, err)
		}
		found = append(found, list.Items...)
	}
	return found, nil
}

// Matches reports whether a DeletionRun is for a Backup: it compares the UID, or, if the
// DeletionRun has none, the name and location.
func Matches(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) bool {
	for _, uid := range []string{d.Status.BackupUID, d.Spec.BackupUID} {
		if uid != "" {
			return uid == string(b.UID)
		}
	}
	where, at := d.Spec.StorageLocation, b.Location()
	return d.Namespace == b.Namespace && d.Spec.BackupName == b.Name && (where == "" || at == "" || where == at)
}

// HasPendingDeletion reports whether one of these DeletionRuns will delete, or has deleted, a
// Backup. A DeletionRun that finished without any effect does not count.
func HasPendingDeletion(b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun) bool {
	for i := range deletions {
		if d := &deletions[i]; Matches(d, b) && (!lifecycle.IsFinished(d) || lifecycle.IsCompletedOrPartiallyFailed(d)) {
			return true
		}
	}
	return false
}

// ListUnfinishedRestores returns the unfinished Restores of a namespace. The caller must not change
// them, because reader may be a cache.
func ListUnfinishedRestores(ctx context.Context, reader client.Reader, namespace string) ([]*v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var open []*v1alpha1.Restore
	for i := range list.Items {
		if restore := &list.Items[i]; !lifecycle.IsFinished(restore) {
			open = append(open, restore)
		}
	}
	return open, nil
}

// IsUsedByRestore reports whether one of these Restores reads a Backup, or may do so later: a
// Restore of a Schedule chooses its Backup when it starts.
func IsUsedByRestore(b *v1alpha1.Backup, open []*v1alpha1.Restore) bool {
	for _, restore := range open {
		if UsesBackup(restore, b) {
			return true
		}
	}
	return false
}

// UsesBackup is IsUsedByRestore for one Restore.
func UsesBackup(restore *v1alpha1.Restore, b *v1alpha1.Backup) bool {
	switch {
	case restore.Status.StorageLocation != "" && restore.Status.BackupName != "":
		return restore.Status.BackupName == b.StoredName() && restore.Status.StorageLocation == b.Location()
	case restore.Spec.BackupName != "":
		return restore.Spec.BackupName == b.Name
	}
	return BelongsToSchedule(b, restore.Spec.ScheduleName)
}
