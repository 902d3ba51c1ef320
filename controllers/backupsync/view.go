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

// view is what the cluster has of one location. The objects in it are those of the cache:
// they are not changed.
type view struct {
	taken time.Time
	// backups are those of the location, by their name in it.
	backups map[string][]*v1alpha1.Backup
	// deleted has the names that open DeletionRuns say, of objects and in the location.
	deleted map[string]bool
	// seen are the backups that had a Backup in this cluster.
	seen seen.Backups
}

// see returns what the cluster has of a location now. What was seen is read last: it
// is noted long before the object goes.
func (l *Looker) see(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*view, error) {
	v := &view{taken: l.Now(), backups: map[string][]*v1alpha1.Backup{}, deleted: map[string]bool{}}
	var backups v1alpha1.BackupList
	if err := l.Client.List(ctx, &backups, client.InNamespace(bsl.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Backups: %w", err)
	}
	for i := range backups.Items {
		if b := &backups.Items[i]; locationOf(b) == bsl.Name {
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
		if run.Decided(d) || (where != "" && where != bsl.Name) {
			continue
		}
		for _, name := range []string{d.Spec.BackupName, d.Status.BackupName, d.Status.StoredName} {
			v.deleted[name] = true
		}
	}
	var err error
	v.seen, err = seen.Load(ctx, l.Reader, bsl.Namespace, bsl.Name)
	return v, err
}

// busy says whether a stored name is not to be touched now: it is being deleted, or a
// Backup of this cluster that has not ended may take it.
func (v *view) busy(name string) bool {
	if v.deleted[name] {
		return true
	}
	for _, b := range v.backups[name] {
		if v.deleted[b.Name] || (b.Spec.ImportedFrom == nil && !run.Decided(b)) {
			return true
		}
	}
	return false
}

// locationOf returns the name of the location in which a Backup is stored; "" if that is
// not known yet.
func locationOf(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.StorageLocation
	}
	return cmp.Or(b.Status.StorageLocation, b.Spec.StorageLocation)
}

// uidOf returns the UID of the Backup that made what a Backup stands for; "" means any.
func uidOf(b *v1alpha1.Backup) string {
	if from := b.Spec.ImportedFrom; from != nil {
		return from.BackupUID
	}
	return string(b.UID)
}

// standsFor says whether a Backup stands for what the Backup with that UID stored.
func standsFor(b *v1alpha1.Backup, uid string) bool {
	of := uidOf(b)
	return of == uid || (of == "" && b.Spec.ImportedFrom != nil)
}

// isBare says whether a Backup is to get its status from its manifest.
func isBare(b *v1alpha1.Backup) bool { return b.Spec.ImportedFrom != nil && !run.Decided(b) }

// wasTold says whether a bare Backup says why it has no status yet.
func wasTold(b *v1alpha1.Backup) bool {
	stalled := conditions.Get(b, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == "True" && stalled.ObservedGeneration == b.Generation
}

// isMarked says whether the data of a Backup was found to be missing.
func isMarked(b *v1alpha1.Backup) bool {
	available := conditions.Get(b, v1alpha1.ConditionDataAvailable)
	return available != nil && available.Status == "False"
}

// hasData says whether a Backup should have data in its location.
func hasData(b *v1alpha1.Backup) bool { return run.Decided(b) && run.Succeeded(b) }

// isTrusted says whether a Backup was found to stand for what is stored under its name.
func isTrusted(b *v1alpha1.Backup) bool {
	return run.Decided(b) && !isMarked(b) && (b.Spec.ImportedFrom != nil || run.Succeeded(b))
}
