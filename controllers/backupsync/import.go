// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/imported"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// importBackup creates the object of a stored backup when it is its turn.
func (l *locationSync) importBackup(ctx context.Context, name string, known *cacheEntry, b *v1alpha1.Backup) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	if l.Now().Sub(l.snapshot.takenAt) > maxSnapshotAge {
		fresh, err := l.takeSnapshot(ctx, l.bsl)
		if err != nil {
			return err
		}
		l.snapshot = fresh
		l.budget.remaining = max(0, l.budget.limit-fresh.countForeign())
		stands := func(object *v1alpha1.Backup) bool { return matchesUID(object, known.uid) }
		if l.budget.remaining == 0 || fresh.isInUse(name) || slices.ContainsFunc(fresh.backups[name], stands) || !fresh.tombstones.ShouldImport(name, known.uid) {
			return nil // next time
		}
	}
	created, err := l.createBackup(ctx, name, known, b)
	if created == nil || err != nil {
		return err
	}
	l.report.Imported++
	l.budget.remaining = max(0, l.budget.remaining-1)
	return l.updateStatusFromManifest(ctx, created, b, known)
}

// createBackup creates an object, under another name if its own is taken. It returns nil if
// there is nothing to be completed.
func (l *locationSync) createBackup(ctx context.Context, name string, known *cacheEntry, b *v1alpha1.Backup) (*v1alpha1.Backup, error) {
	taken := ""
	for range 2 {
		created := b.DeepCopy()
		created.Status = v1alpha1.BackupStatus{}
		err := l.Client.Create(ctx, created)
		switch {
		case err == nil:
			l.emitRenamed(created, taken)
			return created, nil
		case isRejected(err) && !apierrors.IsAlreadyExists(err):
			known.problem = l.redactedLine("as a Backup it is refused: " + err.Error())
			return nil, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, fmt.Errorf("creating Backup %s: %w", b.Name, err)
		}
		var there v1alpha1.Backup
		err = l.Reader.Get(ctx, client.ObjectKeyFromObject(b), &there)
		switch {
		case apierrors.IsNotFound(err) || there.DeletionTimestamp != nil:
			return nil, nil // next time
		case err != nil:
			return nil, fmt.Errorf("reading Backup %s: %w", b.Name, err)
		case locationName(&there) == l.bsl.Name && there.StoredName() == name && matchesUID(&there, known.uid):
			if isPendingImport(&there) {
				return &there, nil
			}
			return nil, nil
		}
		taken = b.Name
		imported.RenameBackup(b)
	}
	known.problem = fmt.Sprintf("Backups %s and %s of other backups have the names that it could have", taken, b.Name)
	return nil, nil
}

// errRejected means that the API server does not take what is to be written on one Backup.
var errRejected = errors.New("refused by the API server")

// isRejected says whether the API server answered a write, and its answer is about what was
// to be written: a policy, a quota, the size. It may take other objects.
func isRejected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsServiceUnavailable(err)
}

// emitRenamed says that an object is not called like its backup.
func (l *locationSync) emitRenamed(b *v1alpha1.Backup, taken string) {
	if taken == "" {
		return
	}
	l.report.Renamed[b.Name] = b.StoredName()
	l.Recorder.Eventf(b, l.bsl, corev1.EventTypeWarning, v1alpha1.ReasonNameTaken, "Import",
		"Backup %s of BackupStorageLocation %s is called %s here, because another Backup has its name", b.StoredName(), l.bsl.Name, b.Name)
}

// completeImport gives a bare object its status. Whoever created it wants to see the backup
// again.
func (l *locationSync) completeImport(ctx context.Context, object, b *v1alpha1.Backup, known *cacheEntry) error {
	if object.DeletionTimestamp != nil {
		return nil
	}
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	l.report.Imported++
	return l.updateStatusFromManifest(ctx, object, b, known)
}

// updateStatusFromManifest writes the status of a bare object.
func (l *locationSync) updateStatusFromManifest(ctx context.Context, object, b *v1alpha1.Backup, known *cacheEntry) error {
	_, err := l.patchBackupStatus(ctx, object, func(now *v1alpha1.Backup) {
		if run.IsFinished(now) {
			return
		}
		now.Status = *b.Status.DeepCopy()
		for i := range now.Status.Conditions {
			now.Status.Conditions[i].ObservedGeneration = now.Generation
		}
	})
	if err == nil && !l.snapshot.tombstones.IsCreatedHere(object.StoredName(), known.uid) {
		l.importedBackups.Add(object.StoredName(), known.uid, false)
	}
	return err
}
