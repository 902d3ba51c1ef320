// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// reportDataMissing records on a Backup that the location does not contain its data.
func (l *locationSync) reportDataMissing(ctx context.Context, b *v1alpha1.Backup) error {
	if isPendingImport(b) {
		return l.stallPendingImport(ctx, b, v1alpha1.ReasonDataMissing, fmt.Sprintf(
			"BackupStorageLocation %s has no finished backup %q; recreate this object with the correct names in spec.importedFrom",
			l.bsl.Name, b.StoredName()))
	}
	return l.markDataMissing(ctx, b, fmt.Sprintf("BackupStorageLocation %s no longer contains this backup, which therefore cannot be restored; "+
		"restore its files, or delete this object if it is not needed", l.bsl.Name))
}

// markDataMissing sets DataAvailable to False on a Backup.
func (l *locationSync) markDataMissing(ctx context.Context, b *v1alpha1.Backup, message string) error {
	if isDataMissing(b) || b.DeletionTimestamp != nil {
		return nil
	}
	return l.setDataAvailable(ctx, b, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, corev1.EventTypeWarning, message)
}

// markDataAvailable sets DataAvailable to True on a Backup whose data was missing.
func (l *locationSync) markDataAvailable(ctx context.Context, b *v1alpha1.Backup) error {
	if !isDataMissing(b) || b.DeletionTimestamp != nil {
		return nil
	}
	return l.setDataAvailable(ctx, b, metav1.ConditionTrue, v1alpha1.ReasonDataFound, corev1.EventTypeNormal,
		fmt.Sprintf("BackupStorageLocation %s contains this backup again", l.bsl.Name))
}

func (l *locationSync) setDataAvailable(ctx context.Context, b *v1alpha1.Backup, status metav1.ConditionStatus, reason, eventType, message string) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	written, err := l.patchBackupStatus(ctx, b, func(now *v1alpha1.Backup) {
		conditions.Set(now, v1alpha1.ConditionDataAvailable, status, reason, message)
		if lifecycle.IsFinalized(now) {
			lifecycle.SummarizeOutcome(now)
		}
	})
	if written && err == nil {
		l.report.Marked++
		l.Recorder.Eventf(b, l.bsl, eventType, reason, "Sync", "%s", message)
	}
	return err
}

// stallPendingImports records on the pending imports of a name why they have no status.
func (l *locationSync) stallPendingImports(ctx context.Context, name, reason, message string) error {
	for _, b := range l.snapshot.backups[name] {
		if isPendingImport(b) {
			if err := l.stallPendingImport(ctx, b, reason, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// stallPendingImport records on a pending import why it has no status.
func (l *locationSync) stallPendingImport(ctx context.Context, b *v1alpha1.Backup, reason, message string) error {
	if stalled := conditions.Get(b, v1alpha1.ConditionStalled); b.DeletionTimestamp != nil ||
		(hasStalledCondition(b) && stalled.Reason == reason && stalled.Message == message) {
		return nil
	}
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	_, err := l.patchBackupStatus(ctx, b, func(now *v1alpha1.Backup) { markStalled(now, reason, message) })
	return err
}

// markStalled sets the condition Stalled on a pending import.
func markStalled(b *v1alpha1.Backup, reason, message string) {
	if lifecycle.IsFinished(b) {
		return
	}
	b.Status.Message = lifecycle.TruncateMessage(message)
	conditions.SetSummary(b, conditions.Stalled, reason, message)
}

// patchBackupStatus changes the status of an object, unless the object was replaced or deleted. It
// keeps concurrent changes by others. It reports whether there was anything to write. The error is
// errRejected if the API server rejects the status of this object.
func (l *Syncer) patchBackupStatus(ctx context.Context, object *v1alpha1.Backup, change func(*v1alpha1.Backup)) (written bool, err error) {
	now := object.DeepCopy()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		before := now.DeepCopy()
		change(now)
		if equality.Semantic.DeepEqual(before.Status, now.Status) {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := l.Client.Status().Patch(ctx, now, patch)
		if apierrors.IsConflict(err) {
			fresh := &v1alpha1.Backup{}
			if err := l.Reader.Get(ctx, client.ObjectKeyFromObject(object), fresh); err != nil {
				return err
			}
			if fresh.UID != object.UID {
				return nil
			}
			now = fresh
		}
		written = err == nil
		return err
	})
	err = client.IgnoreNotFound(err)
	switch {
	case isRejected(err):
		return false, fmt.Errorf("the status of Backup %s was %w: %w", object.Name, errRejected, err)
	case err != nil:
		return false, fmt.Errorf("writing the status of Backup %s: %w", object.Name, err)
	}
	return written, nil
}
