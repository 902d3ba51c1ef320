// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// stored is a backup in a location.
type stored struct {
	// location is where it is; empty means in the default location.
	location, name string
	// uid is that of the Backup that must have made it; empty means any.
	uid string
}

// findBackup decides which backup is meant and where it is, as far as the objects
// say. A backup without an object may still be in the location.
func (r *Reconciler) findBackup(ctx context.Context, s *scope) (of stored, waiting bool, problems []string, err error) {
	// A Restore may follow right after its Backup, which the cache shows as it was
	// before.
	var list v1alpha1.BackupList
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.Object.Namespace)); err != nil {
		return stored{}, false, nil, fmt.Errorf("listing the Backups: %w", err)
	}
	of, problem := pick(&s.Object.Spec, list.Items)
	if problem != "" {
		return stored{}, false, []string{problem}, nil
	}
	status := &s.Object.Status
	status.BackupName = of.name
	of.location, waiting, problems, err = r.driver.ChooseLocation(ctx, s, of.location, false)
	if of.location == "" {
		return of, waiting, problems, err
	}
	status.StorageLocation = of.location
	by, err := r.destroyer(ctx, s.Object.Namespace, of, list.Items)
	if by != "" {
		problems = append(problems, fmt.Sprintf("backup %q in BackupStorageLocation %s is being destroyed by DeletionRun %s; restore another one",
			of.name, of.location, by))
	}
	return of, waiting, problems, err
}

// pick returns the backup that is meant, as the objects know it, or says why there is none.
func pick(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (of stored, problem string) {
	choose := named
	if spec.ScheduleName != "" {
		choose = newest
	}
	b, problem := choose(spec, backups)
	switch {
	case problem != "":
		return stored{}, problem
	case b == nil:
		return stored{location: spec.StorageLocation, name: spec.BackupName}, ""
	}
	of = stored{location: cmp.Or(spec.StorageLocation, b.Location()), name: b.StoredName(), uid: string(b.UID)}
	if from := b.Spec.ImportedFrom; from != nil {
		of.uid = from.BackupUID
	}
	return of, ""
}

// named returns the Backup of that name. It is nil if there is none: its object is not
// needed if the location has the backup.
func named(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	i := slices.IndexFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName })
	if i < 0 {
		return nil, ""
	}
	b := &backups[i]
	if at := cmp.Or(b.Location(), b.Spec.StorageLocation); spec.StorageLocation != "" && spec.StorageLocation != at {
		return nil, "" // the location has another backup of that name
	}
	if b.Spec.ImportedFrom == nil && !run.Decided(b) {
		return nil, fmt.Sprintf("Backup %s has not ended (%s); wait for it, and create a new Restore", b.Name, cmp.Or(b.GetPhase(), "New"))
	}
	if b.Spec.ImportedFrom == nil && !run.Succeeded(b) {
		return nil, fmt.Sprintf("Backup %s ended as %s and holds no objects; restore another one", b.Name, b.GetPhase())
	}
	return b, ""
}

// newest returns the newest Completed Backup of a Schedule that can be restored.
func newest(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	for i := range backups {
		b := &backups[i]
		if b.Labels[v1alpha1.LabelScheduleName] != shortname.Label(spec.ScheduleName) ||
			b.Status.Phase != v1alpha1.BackupPhaseCompleted || b.Status.StartTimestamp == nil || lacksData(spec, b) {
			continue
		}
		if found == nil || found.Status.StartTimestamp.Before(b.Status.StartTimestamp) {
			found = b
		}
	}
	if found == nil {
		return nil, fmt.Sprintf("Schedule %s has no Completed Backup with data in this namespace; name a backup with spec.backupName", spec.ScheduleName)
	}
	return found, ""
}

// lacksData says whether the data of a Backup was found to be gone from where it is to be
// restored from. A copy of its location may still have it.
func lacksData(spec *v1alpha1.RestoreSpec, b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == metav1.ConditionFalse &&
		(spec.StorageLocation == "" || spec.StorageLocation == b.Location())
}

// destroyer returns the name of the DeletionRun that destroys a stored backup; empty if none
// does. It is noted on a Backup before it looks for Restores, so that one of the two sees the
// other, if both look past the cache.
func (r *Reconciler) destroyer(ctx context.Context, namespace string, of stored, backups []v1alpha1.Backup) (name string, err error) {
	var deletions v1alpha1.DeletionRunList
	if err := r.Reader.List(ctx, &deletions, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	for i := range deletions.Items {
		if d := &deletions.Items[i]; !run.Decided(d) && destroys(d, of, backups) {
			return d.Name, nil
		}
	}
	return "", nil
}

// destroys says whether a DeletionRun that has not ended is at work on a stored backup. One
// whose plan is recorded is, whatever people did to the Backup. Before, it is noted on a
// Backup, which says nothing if it is about another one.
func destroys(d *v1alpha1.DeletionRun, of stored, backups []v1alpha1.Backup) bool {
	if run.Planned(d) && d.Status.StoredName == of.name && d.Status.StorageLocation == of.location {
		return true // its Backup may be gone
	}
	for i := range backups {
		b := &backups[i]
		if b.StoredName() == of.name && b.Location() == of.location && destroy.Of(d, b) &&
			(run.Planned(d) || b.Annotations[v1alpha1.AnnotationDeletedBy] == string(d.UID)) {
			return true
		}
	}
	return false
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
