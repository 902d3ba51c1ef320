// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// storedBackup is a backup in a location.
type storedBackup struct {
	// location is where the backup is stored; empty means the default location.
	location, name string
	// uid is the UID of the Backup that must have created it; empty means any.
	uid string
}

// resolveBackup determines which backup to restore and where it is stored, as far as the objects
// show that. A backup without an object may still be in the location.
func (r *Reconciler) resolveBackup(ctx context.Context, s *scope) (of storedBackup, waiting bool, problems []string, err error) {
	backups, err := r.readCandidateBackups(ctx, s.Object)
	if err != nil {
		return storedBackup{}, false, nil, err
	}
	of, problem := selectBackup(&s.Object.Spec, backups)
	if problem != "" {
		problems := []string{problem}
		return storedBackup{}, canBackupStillAppear(&s.Object.Spec, backups) && r.awaitBackupCreation(s, problems), problems, nil
	}
	status := &s.Object.Status
	status.BackupName = of.name
	of.location, waiting, problems, err = r.driver.ChooseLocation(ctx, s, of.location, location.ForReading)
	if of.location == "" {
		return of, waiting, problems, err
	}
	status.StorageLocation = of.location
	by, err := r.findActiveDeletionRun(ctx, s.Object.Namespace, of, backups)
	if by != "" {
		problems = append(problems, fmt.Sprintf("backup %q in BackupStorageLocation %s is being destroyed by DeletionRun %s; restore another backup",
			of.name, of.location, by))
	}
	return of, waiting, problems, err
}

// backupPollInterval is the time between two checks for a backup that may still appear. Backups
// are not watched, because an active Backup changes often.
const backupPollInterval = 5 * time.Second

// awaitBackupCreation waits for a Backup that is created or imported together with the Restore.
func (r *Reconciler) awaitBackupCreation(s *scope, problems []string) (waiting bool) {
	if !r.driver.AwaitAdmission(s, v1alpha1.ReasonWaitingForBackup, problems) {
		return false
	}
	s.RequeueAfter(backupPollInterval)
	return true
}

// canBackupStillAppear reports whether a Backup that cannot be restored now is unfinished or
// does not exist yet.
func canBackupStillAppear(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) bool {
	return !slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName && lifecycle.IsFinished(&b) })
}

// selectBackup returns the backup to restore according to the objects, or a problem if there is
// none.
func selectBackup(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (of storedBackup, problem string) {
	choose := selectBackupByName
	if spec.ScheduleName != "" {
		choose = selectNewestOfSchedule
	}
	b, problem := choose(spec, backups)
	switch {
	case problem != "":
		return storedBackup{}, problem
	case b == nil:
		return storedBackup{location: spec.StorageLocation, name: spec.BackupName}, ""
	}
	of = storedBackup{location: cmp.Or(spec.StorageLocation, b.Location()), name: b.StoredName(), uid: string(b.UID)}
	if from := b.Spec.ImportedFrom; from != nil {
		of.uid = from.BackupUID
	}
	return of, ""
}

// selectBackupByName returns the Backup with the name in the spec. It is nil if there is none,
// because the location may have a backup without an object.
func selectBackupByName(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	i := slices.IndexFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName })
	if i < 0 {
		return nil, ""
	}
	b := &backups[i]
	if at := cmp.Or(b.Location(), b.Spec.StorageLocation); spec.StorageLocation != "" && spec.StorageLocation != at {
		return nil, "" // the location has another backup of that name
	}
	if b.Spec.ImportedFrom == nil && !lifecycle.IsFinished(b) {
		return nil, fmt.Sprintf("Backup %s has not ended (%s); wait for it, and create a new Restore", b.Name, cmp.Or(b.Status.Phase, v1alpha1.RunPhaseNew))
	}
	if b.Spec.ImportedFrom == nil && !lifecycle.IsCompletedOrPartiallyFailed(b) {
		return nil, fmt.Sprintf("Backup %s ended as %s and has no objects; restore another one", b.Name, b.Status.Phase)
	}
	return b, ""
}

// selectNewestOfSchedule returns the newest Completed Backup of a Schedule that can be restored.
func selectNewestOfSchedule(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	for i := range backups {
		b := &backups[i]
		if b.Labels[v1alpha1.LabelScheduleName] != names.LabelValue(spec.ScheduleName) ||
			b.Status.Phase != v1alpha1.RunPhaseCompleted || b.Status.StartTimestamp == nil || isDataMissing(spec, b) {
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

// isDataMissing reports whether the data of a Backup was found to be missing in the location to
// restore from. A copy of its location may still have the data.
func isDataMissing(spec *v1alpha1.RestoreSpec, b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == metav1.ConditionFalse &&
		(spec.StorageLocation == "" || spec.StorageLocation == b.Location())
}

// readCandidateBackups returns the Backup to restore, as the API server has it: a Restore may be
// created right after its Backup, when the cache still shows an older version. Only that Backup
// is read past the cache, because a waiting Restore repeats this. The result is empty if no
// object matches.
func (r *Reconciler) readCandidateBackups(ctx context.Context, o *v1alpha1.Restore) ([]v1alpha1.Backup, error) {
	if o.Spec.ScheduleName == "" {
		return r.getLiveBackup(ctx, types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.BackupName})
	}
	var list v1alpha1.BackupList
	err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(o.Namespace),
		client.MatchingLabels{v1alpha1.LabelScheduleName: names.LabelValue(o.Spec.ScheduleName)})
	if err != nil {
		return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", o.Spec.ScheduleName, err)
	}
	// A Backup that is unfinished in the cache may have completed by now.
	list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(b v1alpha1.Backup) bool {
		return lifecycle.IsFinished(&b) && b.Status.Phase != v1alpha1.RunPhaseCompleted
	})
	slices.SortFunc(list.Items, func(a, b v1alpha1.Backup) int { return startTimeOf(&b).Compare(startTimeOf(&a).Time) })
	for i := range list.Items {
		live, err := r.getLiveBackup(ctx, client.ObjectKeyFromObject(&list.Items[i]))
		if err != nil {
			return nil, err
		}
		if found, _ := selectNewestOfSchedule(&o.Spec, live); found != nil {
			return live, nil
		}
	}
	return nil, nil
}

// startTimeOf returns when a Backup started, or was created if it has not started.
func startTimeOf(b *v1alpha1.Backup) *metav1.Time {
	if b.Status.StartTimestamp != nil {
		return b.Status.StartTimestamp
	}
	return &b.CreationTimestamp
}

// isValidBackupName reports whether a name is valid for a Backup.
func isValidBackupName(name string) bool { return storage.ValidateName(name) == nil }

// getLiveBackup reads a Backup past the cache. The result is empty if it does not exist.
func (r *Reconciler) getLiveBackup(ctx context.Context, key types.NamespacedName) ([]v1alpha1.Backup, error) {
	if !isValidBackupName(key.Name) {
		return nil, nil // no Backup can have that name, and clients reject it
	}
	var b v1alpha1.Backup
	switch err := r.Reader.Get(ctx, key, &b); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Backup %s: %w", key.Name, err)
	}
	return []v1alpha1.Backup{b}, nil
}

// findActiveDeletionRun returns the name of the DeletionRun that destroys a stored backup; empty
// if there is none. A DeletionRun is recorded on the Backup before it checks for Restores. So
// one of the two sees the other if both read past the cache: the Restore reads the Backups with
// that stored name, and the DeletionRuns that are recorded on them or that are active in the
// cache. All DeletionRuns are read past the cache only if the cache does not contain a recorded
// one.
func (r *Reconciler) findActiveDeletionRun(ctx context.Context, namespace string, of storedBackup, named []v1alpha1.Backup) (name string, err error) {
	backups, err := r.listLiveBackups(ctx, namespace, of, named)
	if err != nil {
		return "", err
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.UnsafeDisableDeepCopy, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	if len(backups) == 0 || isAnnotatedRunMissing(deletions.Items, backups) {
		deletions = v1alpha1.DeletionRunList{}
		if err := r.Reader.List(ctx, &deletions, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("listing the DeletionRuns: %w", err)
		}
	}
	for i := range deletions.Items {
		d := &deletions.Items[i]
		if lifecycle.IsFinished(d) || (!isDeletingBackup(d, of, backups) && !isAnnotatedBy(d, backups)) {
			continue
		}
		var live v1alpha1.DeletionRun
		switch err := r.Reader.Get(ctx, client.ObjectKeyFromObject(d), &live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("reading DeletionRun %s: %w", d.Name, err)
		case !lifecycle.IsFinished(&live) && isDeletingBackup(&live, of, backups):
			return live.Name, nil
		}
	}
	return "", nil
}

// listLiveBackups returns the Backup to restore, and the other Backups of the same stored backup
// that the cache shows, as the API server has them.
func (r *Reconciler) listLiveBackups(ctx context.Context, namespace string, of storedBackup, named []v1alpha1.Backup) ([]v1alpha1.Backup, error) {
	var list v1alpha1.BackupList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Backups: %w", err)
	}
	live := slices.Clone(named)
	for i := range list.Items {
		b := &list.Items[i]
		if slices.ContainsFunc(named, func(o v1alpha1.Backup) bool { return o.Name == b.Name }) {
			continue
		}
		if at := cmp.Or(b.Location(), b.Spec.StorageLocation, of.location); b.StoredName() != of.name || at != of.location {
			continue
		}
		found, err := r.getLiveBackup(ctx, client.ObjectKeyFromObject(b))
		if err != nil {
			return nil, err
		}
		live = append(live, found...)
	}
	return live, nil
}

// isAnnotatedRunMissing reports whether a DeletionRun that is recorded on a Backup is not in a
// list.
func isAnnotatedRunMissing(deletions []v1alpha1.DeletionRun, backups []v1alpha1.Backup) bool {
	return slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool {
		by := b.Annotations[v1alpha1.AnnotationDeletedBy]
		return by != "" && !slices.ContainsFunc(deletions, func(d v1alpha1.DeletionRun) bool { return string(d.UID) == by })
	})
}

// isAnnotatedBy reports whether a DeletionRun is recorded on a Backup.
func isAnnotatedBy(d *v1alpha1.DeletionRun, backups []v1alpha1.Backup) bool {
	return slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool { return b.Annotations[v1alpha1.AnnotationDeletedBy] == string(d.UID) })
}

// isDeletingBackup reports whether an unfinished DeletionRun destroys a stored backup. If its
// plan is recorded, it does, regardless of what users did to the Backup. Before that, it does if
// it is recorded on a Backup that is its target. An annotation for another backup means nothing.
func isDeletingBackup(d *v1alpha1.DeletionRun, of storedBackup, backups []v1alpha1.Backup) bool {
	if lifecycle.IsPlanned(d) && d.Status.StoredName == of.name && d.Status.StorageLocation == of.location {
		return true // its Backup may not exist anymore
	}
	for i := range backups {
		b := &backups[i]
		if b.StoredName() == of.name && b.Location() == of.location && retention.Matches(d, b) &&
			(lifecycle.IsPlanned(d) || b.Annotations[v1alpha1.AnnotationDeletedBy] == string(d.UID)) {
			return true
		}
	}
	return false
}

// backupSource is where the backup of a Restore comes from. It is used by background work.
type backupSource struct {
	backup          types.NamespacedName
	location        string
	allowUnverified bool
}

func (r *Reconciler) newBackupSource(s *scope) backupSource {
	o := s.Object
	return backupSource{
		backup: types.NamespacedName{Namespace: o.Namespace, Name: o.Status.BackupName}, location: o.Status.StorageLocation,
		allowUnverified: o.Annotations[v1alpha1.AnnotationAllowUnverified] == "true",
	}
}

// readOrigin returns what the objects show about the creator of the backup.
func (f backupSource) readOrigin(ctx context.Context, reader client.Reader) (restore.Origin, error) {
	origin := restore.Origin{AllowUnverified: f.allowUnverified}
	if !isValidBackupName(f.backup.Name) {
		return origin, nil // no Backup can have that name, and clients reject it
	}
	var b v1alpha1.Backup
	err := reader.Get(ctx, f.backup, &b)
	if client.IgnoreNotFound(err) != nil {
		return restore.Origin{}, fmt.Errorf("reading Backup %s: %w", f.backup.Name, err)
	}
	origin.Native = err == nil && b.Spec.ImportedFrom == nil && lifecycle.IsCompletedOrPartiallyFailed(&b) && b.Location() == f.location
	return origin, nil
}

// missingBackupMessage returns what a user can do about a backup that the location does not
// have.
func missingBackupMessage(name, location string, backups []string) string {
	message := fmt.Sprintf("BackupStorageLocation %s has no finished backup %q; fix spec.backupName", location, name)
	if len(backups) > 0 {
		message += ", for example to one of: " + strings.Join(backups, ", ")
	}
	return message + "; if it is in another location, set spec.storageLocation"
}
