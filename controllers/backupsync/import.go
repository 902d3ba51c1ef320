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
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// importBackup creates the object of a stored backup if it is within the budget.
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
			return nil // the next sync tries again
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

// createBackup creates an object, under a different name if its own is taken. It returns nil if
// there is nothing to complete.
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
			known.problem = l.redactedLine("the API server rejected the imported Backup: " + err.Error())
			return nil, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, fmt.Errorf("creating Backup %s: %w", b.Name, err)
		}
		var there v1alpha1.Backup
		err = l.Reader.Get(ctx, client.ObjectKeyFromObject(b), &there)
		switch {
		case apierrors.IsNotFound(err) || there.DeletionTimestamp != nil:
			return nil, nil // the next sync tries again
		case err != nil:
			return nil, fmt.Errorf("reading Backup %s: %w", b.Name, err)
		case locationName(&there) == l.bsl.Name && there.StoredName() == name && matchesUID(&there, known.uid):
			if isPendingImport(&there) {
				return &there, nil
			}
			return nil, nil
		}
		taken = b.Name
		backupimport.RenameBackup(b)
	}
	known.problem = fmt.Sprintf("both names that it could have, %s and %s, are taken by Backups of other backups", taken, b.Name)
	return nil, nil
}

// errRejected means that the API server rejects a write for one particular Backup.
var errRejected = errors.New("rejected by the API server")

// isRejected reports whether the API server rejected the content of a write, for example because of
// a policy, a quota or its size. It may accept other objects.
func isRejected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsServiceUnavailable(err)
}

// emitRenamed emits an event for an object that was imported under a different name.
func (l *locationSync) emitRenamed(b *v1alpha1.Backup, taken string) {
	if taken == "" {
		return
	}
	l.report.Renamed[b.Name] = b.StoredName()
	l.Recorder.Eventf(b, l.bsl, corev1.EventTypeWarning, v1alpha1.ReasonNameTaken, "Import",
		"Backup %s of BackupStorageLocation %s is named %s here, because another Backup already has its name", b.StoredName(), l.bsl.Name, b.Name)
}

// completeImport sets the status of a pending import. Its creation is a request to import the
// backup again.
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

// updateStatusFromManifest writes the status of a pending import.
func (l *locationSync) updateStatusFromManifest(ctx context.Context, object, b *v1alpha1.Backup, known *cacheEntry) error {
	_, err := l.patchBackupStatus(ctx, object, func(now *v1alpha1.Backup) {
		if lifecycle.IsFinished(now) {
			return
		}
		now.Status = *b.Status.DeepCopy()
		conditions.ObserveGeneration(now)
	})
	if err == nil && !l.snapshot.tombstones.IsCreatedHere(object.StoredName(), known.uid) {
		l.importedBackups.Add(object.StoredName(), known.uid, false)
	}
	return err
}
