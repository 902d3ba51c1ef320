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
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// storedBackup is a backup in a location.
type storedBackup struct {
	// location is where it is; empty means in the default location.
	location, name string
	// uid is that of the Backup that must have made it; empty means any.
	uid string
}

// resolveBackup decides which backup is meant and where it is, as far as the objects
// say. A backup without an object may still be in the location.
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
		problems = append(problems, fmt.Sprintf("backup %q in BackupStorageLocation %s is being destroyed by DeletionRun %s; restore another one",
			of.name, of.location, by))
	}
	return of, waiting, problems, err
}

// backupPollInterval is the time between two looks for a backup that may come yet. Backups are
// not watched: while one is made it changes often.
const backupPollInterval = 5 * time.Second

// awaitBackupCreation waits for a Backup that is created, made or imported together with the
// Restore.
func (r *Reconciler) awaitBackupCreation(s *scope, problems []string) (waiting bool) {
	if !r.driver.AwaitAdmission(s, v1alpha1.ReasonWaitingForBackup, problems) {
		return false
	}
	s.RequeueAfter(backupPollInterval)
	return true
}

// canBackupStillAppear reports whether a Backup that cannot be restored now is one that has not
// ended.
func canBackupStillAppear(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) bool {
	return !slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName && run.IsFinished(&b) })
}

// selectBackup returns the backup that is meant, as the objects know it, or says why there is none.
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

// selectBackupByName returns the Backup of that name. It is nil if there is none: its object is not
// needed if the location has the backup.
func selectBackupByName(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	i := slices.IndexFunc(backups, func(b v1alpha1.Backup) bool { return b.Name == spec.BackupName })
	if i < 0 {
		return nil, ""
	}
	b := &backups[i]
	if at := cmp.Or(b.Location(), b.Spec.StorageLocation); spec.StorageLocation != "" && spec.StorageLocation != at {
		return nil, "" // the location has another backup of that name
	}
	if b.Spec.ImportedFrom == nil && !run.IsFinished(b) {
		return nil, fmt.Sprintf("Backup %s has not ended (%s); wait for it, and create a new Restore", b.Name, cmp.Or(b.GetPhase(), "New"))
	}
	if b.Spec.ImportedFrom == nil && !run.IsCompletedOrPartiallyFailed(b) {
		return nil, fmt.Sprintf("Backup %s ended as %s and holds no objects; restore another one", b.Name, b.GetPhase())
	}
	return b, ""
}

// selectNewestOfSchedule returns the newest Completed Backup of a Schedule that can be restored.
func selectNewestOfSchedule(spec *v1alpha1.RestoreSpec, backups []v1alpha1.Backup) (found *v1alpha1.Backup, problem string) {
	for i := range backups {
		b := &backups[i]
		if b.Labels[v1alpha1.LabelScheduleName] != shortname.LabelValue(spec.ScheduleName) ||
			b.Status.Phase != v1alpha1.BackupPhaseCompleted || b.Status.StartTimestamp == nil || isDataMissing(spec, b) {
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

// isDataMissing says whether the data of a Backup was found to be gone from where it is to be
// restored from. A copy of its location may still have it.
func isDataMissing(spec *v1alpha1.RestoreSpec, b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == metav1.ConditionFalse &&
		(spec.StorageLocation == "" || spec.StorageLocation == b.Location())
}

// readCandidateBackups returns the Backup that a Restore names, as the API server has it: a Restore may
// follow right after its Backup, which the cache shows as it was before. Only that one is read
// past the cache, as a Restore that waits for its turn does this again and again. There is none
// if no object fits.
func (r *Reconciler) readCandidateBackups(ctx context.Context, o *v1alpha1.Restore) ([]v1alpha1.Backup, error) {
	if o.Spec.ScheduleName == "" {
		return r.getLiveBackup(ctx, types.NamespacedName{Namespace: o.Namespace, Name: o.Spec.BackupName})
	}
	var list v1alpha1.BackupList
	err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(o.Namespace),
		client.MatchingLabels{v1alpha1.LabelScheduleName: shortname.LabelValue(o.Spec.ScheduleName)})
	if err != nil {
		return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", o.Spec.ScheduleName, err)
	}
	// One that goes on in the cache may have completed by now.
	list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(b v1alpha1.Backup) bool {
		return run.IsFinished(&b) && b.Status.Phase != v1alpha1.BackupPhaseCompleted
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

// startTimeOf returns when a Backup began, or is to begin.
func startTimeOf(b *v1alpha1.Backup) *metav1.Time {
	if b.Status.StartTimestamp != nil {
		return b.Status.StartTimestamp
	}
	return &b.CreationTimestamp
}

// isValidBackupName reports whether a Backup can have a name.
func isValidBackupName(name string) bool { return backupstore.ValidateName(name) == nil }

// getLiveBackup returns a Backup as the API server has it, if it has one.
func (r *Reconciler) getLiveBackup(ctx context.Context, key types.NamespacedName) ([]v1alpha1.Backup, error) {
	if !isValidBackupName(key.Name) {
		return nil, nil // no Backup has that name, and no client asks for it
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

// findActiveDeletionRun returns the name of the DeletionRun that destroys a stored backup; empty if none
// does. It is noted on a Backup before it looks for Restores, so that one of the two sees the
// other, if both look past the cache: the Restore at the Backups of that stored name, and at
// the DeletionRuns that are noted there or that the cache shows at work. All DeletionRuns are
// read past the cache only if it does not tell which those are.
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
		if run.IsFinished(d) || (!isDeletingBackup(d, of, backups) && !isAnnotatedBy(d, backups)) {
			continue
		}
		var live v1alpha1.DeletionRun
		switch err := r.Reader.Get(ctx, client.ObjectKeyFromObject(d), &live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("reading DeletionRun %s: %w", d.Name, err)
		case !run.IsFinished(&live) && isDeletingBackup(&live, of, backups):
			return live.Name, nil
		}
	}
	return "", nil
}

// listLiveBackups adds to the Backup that a Restore names the others that the cache shows of the same
// stored backup, as the API server has them.
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

// isAnnotatedRunMissing reports whether DeletionRuns lack one that is noted on a Backup.
func isAnnotatedRunMissing(deletions []v1alpha1.DeletionRun, backups []v1alpha1.Backup) bool {
	return slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool {
		by := b.Annotations[v1alpha1.AnnotationDeletedBy]
		return by != "" && !slices.ContainsFunc(deletions, func(d v1alpha1.DeletionRun) bool { return string(d.UID) == by })
	})
}

// isAnnotatedBy reports whether a DeletionRun is noted on a Backup.
func isAnnotatedBy(d *v1alpha1.DeletionRun, backups []v1alpha1.Backup) bool {
	return slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool { return b.Annotations[v1alpha1.AnnotationDeletedBy] == string(d.UID) })
}

// isDeletingBackup says whether a DeletionRun that has not ended is at work on a stored backup. One
// whose plan is recorded is, whatever people did to the Backup. Before, it is noted on a
// Backup, which says nothing if it is about another one.
func isDeletingBackup(d *v1alpha1.DeletionRun, of storedBackup, backups []v1alpha1.Backup) bool {
	if run.IsPlanned(d) && d.Status.StoredName == of.name && d.Status.StorageLocation == of.location {
		return true // its Backup may be gone
	}
	for i := range backups {
		b := &backups[i]
		if b.StoredName() == of.name && b.Location() == of.location && destroy.Matches(d, b) &&
			(run.IsPlanned(d) || b.Annotations[v1alpha1.AnnotationDeletedBy] == string(d.UID)) {
			return true
		}
	}
	return false
}

// backupSource is where the backup of a Restore comes from, for work in the background.
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

// readOrigin returns what the objects say of who made the backup.
func (f backupSource) readOrigin(ctx context.Context, reader client.Reader) (job.Origin, error) {
	origin := job.Origin{AllowUnverified: f.allowUnverified}
	if !isValidBackupName(f.backup.Name) {
		return origin, nil // no Backup has that name, and no client asks for it
	}
	var b v1alpha1.Backup
	err := reader.Get(ctx, f.backup, &b)
	if client.IgnoreNotFound(err) != nil {
		return job.Origin{}, fmt.Errorf("reading Backup %s: %w", f.backup.Name, err)
	}
	origin.Native = err == nil && b.Spec.ImportedFrom == nil && run.IsCompletedOrPartiallyFailed(&b) && b.Location() == f.location
	return origin, nil
}

// missingBackupMessage says what a person can do about a backup that the location does not
// have.
func missingBackupMessage(name, location string, backups []string) string {
	message := fmt.Sprintf("BackupStorageLocation %s has no finished backup %q; correct spec.backupName", location, name)
	if len(backups) > 0 {
		message += ", for example to one of: " + strings.Join(backups, ", ")
	}
	return message + "; if it is in another location, set spec.storageLocation"
}
