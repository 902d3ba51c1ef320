// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package destroy

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/scheduled"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// maxName leaves room for what is made of the name of a DeletionRun.
const maxName = 63

// words are what the names of DeletionRuns end with, before a hash.
var words = map[v1alpha1.DeletionCause]string{
	v1alpha1.DeletionCauseExpired:       "expired",
	v1alpha1.DeletionCauseBackupDeleted: "deleted",
	v1alpha1.DeletionCauseScheduleLimit: "limit",
}

// Run returns a DeletionRun for a Backup. It has always the same name for one Backup and
// cause, so that creating it twice is harmless.
func Run(b *v1alpha1.Backup, cause v1alpha1.DeletionCause) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: shortname.Of(b.Name+"-"+words[cause], maxName, string(b.UID), string(cause)),
			Labels: map[string]string{v1alpha1.LabelBackupName: shortname.Label(b.Name)},
		},
		Spec: v1alpha1.DeletionRunSpec{BackupName: b.Name, BackupUID: string(b.UID), Cause: cause},
	}
}

// Of reports whether a DeletionRun is about a Backup, as far as it knows: that of its UID, or
// else that of its name and location.
func Of(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) bool {
	for _, uid := range []string{d.Status.BackupUID, d.Spec.BackupUID} {
		if uid != "" {
			return uid == string(b.UID)
		}
	}
	where, at := d.Spec.StorageLocation, b.Location()
	return d.Namespace == b.Namespace && d.Spec.BackupName == b.Name && (where == "" || at == "" || where == at)
}

// Doomed reports whether a Backup is to go, or has gone, by one of these DeletionRuns. One
// that ended before it did anything leaves it as it was.
func Doomed(b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun) bool {
	for i := range deletions {
		if d := &deletions[i]; Of(d, b) && (!run.Decided(d) || run.Succeeded(d)) {
			return true
		}
	}
	return false
}

// OpenRestores returns the Restores of a namespace that are not decided.
func OpenRestores(ctx context.Context, reader client.Reader, namespace string) ([]*v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var open []*v1alpha1.Restore
	for i := range list.Items {
		if restore := &list.Items[i]; !run.Decided(restore) {
			open = append(open, restore)
		}
	}
	return open, nil
}

// IsRead reports whether one of these Restores reads a Backup, or may come to do so: which
// Backup of a Schedule it is to restore is found out when it begins.
func IsRead(b *v1alpha1.Backup, open []*v1alpha1.Restore) bool {
	for _, restore := range open {
		if Reads(restore, b) {
			return true
		}
	}
	return false
}

// Reads is IsRead for one Restore.
func Reads(restore *v1alpha1.Restore, b *v1alpha1.Backup) bool {
	switch {
	case restore.Status.StorageLocation != "" && restore.Status.BackupName != "":
		return restore.Status.BackupName == b.StoredName() && restore.Status.StorageLocation == b.Location()
	case restore.Spec.BackupName != "":
		return restore.Spec.BackupName == b.Name
	}
	return scheduled.Belongs(b, restore.Spec.ScheduleName)
}
