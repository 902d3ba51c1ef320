// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// findBackup decides which backup is meant and where it is, as far as the objects
// say. A backup without an object may still be in the location.
func (r *Reconciler) findBackup(ctx context.Context, s *scope) (waiting bool, problems []string, err error) {
	// A Restore may follow right after its Backup, which the cache shows as it was
	// before.
	var list v1alpha1.BackupList
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.Object.Namespace)); err != nil {
		return false, nil, fmt.Errorf("listing the Backups: %w", err)
	}
	spec, status := &s.Object.Spec, &s.Object.Status
	backup, name, problem := pick(spec, list.Items)
	if problem != "" {
		return false, []string{problem}, nil
	}
	status.BackupName = name
	where := spec.StorageLocation
	if backup != nil {
		if by, err := r.destroyer(ctx, backup); by != "" || err != nil {
			return false, []string{fmt.Sprintf("Backup %s is being destroyed by DeletionRun %s; restore another one", backup.Name, by)}, err
		}
		where = cmp.Or(where, backup.Status.StorageLocation, backup.Spec.StorageLocation)
	}
	at, waiting, problems, err := r.driver.ChooseLocation(ctx, s, where, false)
	if at != "" {
		status.StorageLocation = at
	}
	return waiting, problems, err
}

// pick returns the Backup object that is meant, if there is one, and its name.
func pick(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, name, problem string) {
	if spec.ScheduleName != "" {
		return newest(spec.ScheduleName, backups)
	}
	i := slices.IndexFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName })
	if i < 0 {
		return nil, spec.BackupName, "" // its object is not needed if the location has it
	}
	b := &backups[i]
	if at := cmp.Or(b.Status.StorageLocation, b.Spec.StorageLocation); spec.StorageLocation != "" && spec.StorageLocation != at {
		return nil, spec.BackupName, "" // the location has another backup of that name
	}
	if b.Spec.ImportedFrom == nil && !run.Decided(b) {
		return nil, "", fmt.Sprintf("Backup %s has not ended (%s); wait for it, and create a new Restore", b.Name, cmp.Or(b.GetPhase(), "New"))
	}
	if b.Spec.ImportedFrom == nil && !run.Succeeded(b) {
		return nil, "", fmt.Sprintf("Backup %s ended as %s and holds no objects; restore another one", b.Name, b.GetPhase())
	}
	return b, b.StoredName(), ""
}

// destroyer returns the name of the DeletionRun that destroys a Backup; empty if none does.
// It is noted on the Backup before the DeletionRun looks for Restores, so that one of the
// two sees the other.
func (r *Reconciler) destroyer(ctx context.Context, b *v1alpha1.Backup) (name string, err error) {
	uid := b.Annotations[v1alpha1.AnnotationDeletedBy]
	if uid == "" {
		return "", nil
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Reader.List(ctx, &deletions, client.InNamespace(b.Namespace)); err != nil {
		return "", fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	for i := range deletions.Items {
		if d := &deletions.Items[i]; string(d.UID) == uid && !run.Decided(d) {
			return d.Name, nil
		}
	}
	return "", nil
}

// newest returns the newest Completed Backup of a Schedule.
func newest(schedule string, backups []v1alpha1.Backup) (found *v1alpha1.Backup, name, problem string) {
	for i := range backups {
		b := &backups[i]
		if b.Labels[v1alpha1.LabelScheduleName] != shortname.Label(schedule) || b.Status.Phase != v1alpha1.BackupPhaseCompleted || b.Status.StartTimestamp == nil {
			continue
		}
		if found == nil || found.Status.StartTimestamp.Before(b.Status.StartTimestamp) {
			found = b
		}
	}
	if found == nil {
		return nil, "", fmt.Sprintf("Schedule %s has no Completed Backup in this namespace; name a backup with spec.backupName", schedule)
	}
	return found, found.StoredName(), ""
}

// missing says what a person can do about a backup that the location does not
// have.
func missing(name, location string, backups []string) string {
	message := fmt.Sprintf("BackupStorageLocation %s has no finished backup %q; correct spec.backupName", location, name)
	if len(backups) > 0 {
		message += ", for example to one of: " + strings.Join(backups, ", ")
	}
	return message + "; if it is in another location, set spec.storageLocation"
}
