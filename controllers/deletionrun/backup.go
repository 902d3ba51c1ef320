// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionrun

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// resolveBackup returns the Backup to destroy, and records its names and location. The result is
// nil if there is none yet, or if the outcome is recorded.
func (r *Reconciler) resolveBackup(ctx context.Context, s *scope) (*v1alpha1.Backup, error) {
	d := s.Object
	b, err := r.getBackup(ctx, d)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, r.reconcileWithoutBackup(ctx, s)
	}
	storedUID := string(b.UID)
	if from := b.Spec.ImportedFrom; from != nil {
		storedUID = cmp.Or(from.BackupUID, d.Status.StoredUID)
	}
	d.Status.BackupName, d.Status.BackupUID = b.Name, string(b.UID)
	d.Status.StoredName, d.Status.StoredUID, d.Status.StorageLocation = b.StoredName(), storedUID, b.Location()
	if b.Spec.ImportedFrom != nil && storedUID != "" && !r.checkCreatedHere(ctx, s, b.Name, storedUID) {
		return nil, nil
	}
	return b, nil
}

// getBackup reads the Backup to destroy; nil if there is none. It reads past the cache if the cache
// does not have it. A Backup in the cache may be outdated: then the API server rejects its claim and
// the removal of its finalizer, and the watch delivers the newer one.
func (r *Reconciler) getBackup(ctx context.Context, d *v1alpha1.DeletionRun) (*v1alpha1.Backup, error) {
	key := types.NamespacedName{Namespace: d.Namespace, Name: cmp.Or(d.Status.BackupName, d.Spec.BackupName)}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		var b v1alpha1.Backup
		err := reader.Get(ctx, key, &b)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Backup %s: %w", key.Name, err)
		}
		if err == nil && isBackupOf(&b, d) {
			return &b, nil
		}
	}
	return nil, nil
}

// isBackupOf reports whether a Backup is the one that a DeletionRun destroys, as far as is known.
func isBackupOf(b *v1alpha1.Backup, d *v1alpha1.DeletionRun) bool {
	for _, uid := range []string{d.Spec.BackupUID, d.Status.BackupUID} {
		imported := b.Spec.ImportedFrom != nil && b.Spec.ImportedFrom.BackupUID == uid
		if uid != "" && uid != string(b.UID) && !imported {
			return false
		}
	}
	where := d.Spec.StorageLocation
	return where == "" || where == b.Location()
}

// checkCreatedHere reports whether a backup that was found in a location may be destroyed: a
// Backup of this cluster created it, or the user sets spec.destroyForeign. Otherwise the
// DeletionRun has failed, or waits until the creator is known.
func (r *Reconciler) checkCreatedHere(ctx context.Context, s *scope, name, uid string) bool {
	d := s.Object
	if d.Spec.DestroyForeign {
		return true
	}
	backups, err := tombstone.LoadRecords(ctx, r.Reader, d.Namespace, d.Status.StorageLocation)
	if err != nil {
		s.MarkWaiting(v1alpha1.ReasonValidating, "Checking whether this cluster created the backup failed, retrying: "+r.Redactor.String(err.Error()))
		s.RequeueAfter(tombstoneRetryInterval)
		return false
	}
	if !backups.IsCreatedHere(storedName(d), uid) {
		s.FailValidation([]string{fmt.Sprintf("backup %s was not created by a Backup of this cluster, and others may need it; to destroy it anyway, "+
			"create a DeletionRun with spec.destroyForeign: true", name)}, r.Now())
		return false
	}
	return true
}

// tombstoneRetryInterval is the time between two attempts to read which backups this cluster
// created.
const tombstoneRetryInterval = 10 * time.Second

// reconcileWithoutBackup handles a backup that has no Backup. If the backup is stored, a Backup
// is created for it: it shows what is being destroyed, and everything else depends on it.
func (r *Reconciler) reconcileWithoutBackup(ctx context.Context, s *scope) error {
	d := s.Object
	if took, err := r.adoptOutcome(ctx, s); took || err != nil {
		return err
	}
	if d.Spec.Cause != v1alpha1.DeletionCauseRequested || (d.Spec.BackupUID != "" && d.Spec.StorageLocation == "" && d.Status.StorageLocation == "") {
		s.RecordOutcome(lifecycle.Outcome{
			Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted,
			Message: fmt.Sprintf("Backup %s does not exist anymore", d.Spec.BackupName),
		}, r.Now())
		return nil
	}
	where, waiting, problems, err := r.driver.ChooseLocation(ctx, s, cmp.Or(d.Status.StorageLocation, d.Spec.StorageLocation), location.ForDeleting)
	if err != nil || waiting {
		return err
	}
	if len(problems) > 0 {
		s.FailValidation([]string{fmt.Sprintf("there is no Backup %s in this namespace, and the location cannot be searched for it: %s",
			d.Spec.BackupName, strings.Join(problems, "; "))}, r.Now())
		return nil
	}
	d.Status.StorageLocation = where
	s.MarkWaiting(v1alpha1.ReasonValidating, "Looking for the backup in the storage location")
	looked := lifecycle.ExecuteStepWithStore(r.driver, s, stepFind, r.newInspectRequest, r.inspectStoredBackup)
	if looked == nil {
		return nil
	}
	return r.importBackup(ctx, s, looked)
}

func (r *Reconciler) newInspectRequest(s *scope) (string, error) { return storedName(s.Object), nil }

// storedName returns the name in the location of a backup that has no Backup, or none anymore.
func storedName(d *v1alpha1.DeletionRun) string {
	return cmp.Or(d.Status.StoredName, d.Spec.BackupName)
}

func (r *Reconciler) inspectStoredBackup(ctx context.Context, store *storage.Store, name string) (deletion.StoredBackup, error) {
	return r.Runner.Inspect(ctx, store, name)
}

// importBackup creates the Backup of a stored backup, if it may be destroyed.
func (r *Reconciler) importBackup(ctx context.Context, s *scope, looked *lifecycle.Result[deletion.StoredBackup]) error {
	d := s.Object
	where, name := d.Status.StorageLocation, storedName(d)
	found := looked.Value
	if looked.Err != nil {
		s.MarkWaiting(v1alpha1.ReasonWaitingForLocation, "Looking for the backup failed: "+r.Redactor.String(looked.Err.Error())+"; retrying")
		r.driver.RetryForever(s, stepFind)
		return nil //nolint:nilerr // the step is retried
	}
	if !found.Exists {
		s.FailValidation([]string{fmt.Sprintf("there is no Backup %[1]s in this namespace, and BackupStorageLocation %[2]s has no finished backup of that name; "+
			"fix spec.backupName, or set spec.storageLocation", name, where)}, r.Now())
		return nil
	}
	if r.endIfReplaced(s, found) {
		return nil
	}
	if !r.checkCreatedHere(ctx, s, name, found.CreatorUID()) {
		return nil
	}
	b, err := r.newImportedBackup(ctx, s, found)
	if err != nil {
		return err
	}
	d.Status.BackupName, d.Status.BackupUID = b.Name, ""
	s.AfterStatusUpdate(func(ctx context.Context) error { return r.createImportedBackup(ctx, b) })
	s.RequeueAfter(1)
	return nil
}

// endIfReplaced ends a DeletionRun if another backup now has the name of the backup to destroy.
func (r *Reconciler) endIfReplaced(s *scope, found deletion.StoredBackup) bool {
	d := s.Object
	meant := cmp.Or(d.Status.StoredUID, d.Spec.BackupUID)
	switch {
	case meant == "" || found.CreatorUID() == meant:
		return false
	case found.CreatorUID() == "":
		s.FailValidation([]string{fmt.Sprintf("the stored backup %s does not show that it is the one with UID %s; "+
			"to destroy any backup of that name, create a DeletionRun with spec.destroyForeign: true and without spec.backupUID", storedName(d), meant)}, r.Now())
	default:
		s.RecordOutcome(lifecycle.Outcome{
			Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted,
			Message: fmt.Sprintf("Backup %s with UID %s does not exist anymore; another backup has its name", storedName(d), meant),
		}, r.Now())
	}
	return true
}

// newBackupSource returns where the backup of a DeletionRun is stored.
func (r *Reconciler) newBackupSource(ctx context.Context, d *v1alpha1.DeletionRun) backupimport.Source {
	prefix, _ := r.driver.LocationPrefix(ctx, d)
	return backupimport.Source{
		Namespace: d.Namespace, Location: d.Status.StorageLocation, Prefix: prefix, Name: storedName(d), Redact: r.Redactor.String,
	}
}

// toBackup converts a stored backup to a Backup. If the manifest is damaged, the result is a
// pending import.
func toBackup(from backupimport.Source, found deletion.StoredBackup) *v1alpha1.Backup {
	b, unusable := backupimport.BackupFromManifest(from, found.VeleroManifest, found.GrapnelManifest)
	if unusable == nil && b != nil && found.Damaged == "" {
		return b
	}
	return newPendingImport(from.Namespace, from.Name, v1alpha1.ImportSource{StorageLocation: from.Location, BackupUID: found.CreatorUID()})
}

// completeFromManifest returns a Backup with the data in its manifest, if the object is
// abridged.
func completeFromManifest(b *v1alpha1.Backup, from backupimport.Source, found deletion.StoredBackup) *v1alpha1.Backup {
	if !isAbridged(b) {
		return b
	}
	stored := toBackup(from, found)
	if stored.Spec.ImportedFrom.BackupUID != b.Spec.ImportedFrom.BackupUID {
		return b // another backup has the name
	}
	whole := b.DeepCopy()
	whole.Labels, whole.Annotations, whole.Spec = stored.Labels, stored.Annotations, stored.Spec
	whole.Spec.ImportedFrom = b.Spec.ImportedFrom
	return whole
}

// isAbridged reports whether a Backup was imported and its manifest has more data than the
// object.
func isAbridged(b *v1alpha1.Backup) bool {
	return b.Spec.ImportedFrom != nil && b.Annotations[v1alpha1.AnnotationAbridged] != ""
}

// newPendingImport returns a Backup about which only the stored location and name are known.
func newPendingImport(namespace, name string, from v1alpha1.ImportSource) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.BackupSpec{StorageLocation: from.StorageLocation, ImportedFrom: &from},
	}
}

// newImportedBackup returns the Backup of a stored backup, under a name that is not taken.
func (r *Reconciler) newImportedBackup(ctx context.Context, s *scope, found deletion.StoredBackup) (*v1alpha1.Backup, error) {
	from := r.newBackupSource(ctx, s.Object)
	b := toBackup(from, found)
	var other v1alpha1.Backup
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(b), &other)
	if err == nil && !isStoredAs(&other, from.Location, from.Name) {
		backupimport.RenameBackup(b)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Backup %s: %w", b.Name, err)
	}
	return b, backupimport.AbridgeBackup(b)
}

// isStoredAs reports whether a Backup was imported from the backup with a name in a location.
func isStoredAs(b *v1alpha1.Backup, location, name string) bool {
	return b.Spec.ImportedFrom != nil && b.Location() == location && b.StoredName() == name
}

// createImportedBackup creates the Backup of a stored backup. It is no error if the Backup
// exists: the next pass finds it.
func (r *Reconciler) createImportedBackup(ctx context.Context, b *v1alpha1.Backup) error {
	status := b.Status
	err := r.Client.Create(ctx, b)
	if apierrors.IsInvalid(err) {
		status = v1alpha1.BackupStatus{}
		b = newPendingImport(b.Namespace, b.Name, *b.Spec.ImportedFrom) // its manifest has fields that the API server rejects
		err = r.Client.Create(ctx, b)
	}
	if err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("creating Backup %s for a stored backup: %w", b.Name, err)
	}
	if status.CompletionTimestamp == nil {
		return nil // a pending import
	}
	patch := client.MergeFrom(b.DeepCopy())
	b.Status = status
	conditions.ObserveGeneration(b)
	if err := r.Client.Status().Patch(ctx, b, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Backup %s for a stored backup: %w", b.Name, err)
	}
	return nil
}
