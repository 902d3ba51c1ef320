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
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// lost tells a Backup that the location does not have its data.
func (l *look) lost(ctx context.Context, b *v1alpha1.Backup) error {
	if isBare(b) {
		return l.tell(ctx, b, v1alpha1.ReasonDataMissing, fmt.Sprintf(
			"BackupStorageLocation %s has no finished backup %q; delete this object, and create it again with the right names in spec.importedFrom",
			l.bsl.Name, b.StoredName()))
	}
	return l.mark(ctx, b, fmt.Sprintf("BackupStorageLocation %s does not have this backup any more, so that it can not be restored; "+
		"bring its files back, or delete this object if it is not needed", l.bsl.Name))
}

// mark says on a Backup that its data is gone.
func (l *look) mark(ctx context.Context, b *v1alpha1.Backup, message string) error {
	if isMarked(b) || b.DeletionTimestamp != nil {
		return nil
	}
	return l.setData(ctx, b, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, corev1.EventTypeWarning, message)
}

// unmark says on a Backup whose data was gone that it is there again.
func (l *look) unmark(ctx context.Context, b *v1alpha1.Backup) error {
	if !isMarked(b) || b.DeletionTimestamp != nil {
		return nil
	}
	return l.setData(ctx, b, metav1.ConditionTrue, v1alpha1.ReasonDataFound, corev1.EventTypeNormal,
		fmt.Sprintf("BackupStorageLocation %s has this backup again", l.bsl.Name))
}

func (l *look) setData(ctx context.Context, b *v1alpha1.Backup, status metav1.ConditionStatus, reason, eventType, message string) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	written, err := l.write(ctx, b, func(now *v1alpha1.Backup) {
		conditions.Set(now, v1alpha1.ConditionDataAvailable, status, reason, message)
	})
	if written && err == nil {
		l.report.Marked++
		l.Recorder.Eventf(b, l.bsl, eventType, reason, "Look", "%s", message)
	}
	return err
}

// tellAll tells the bare objects of a name why they have no status.
func (l *look) tellAll(ctx context.Context, name, reason, message string) error {
	for _, b := range l.view.backups[name] {
		if isBare(b) {
			if err := l.tell(ctx, b, reason, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell tells a bare object why it has no status.
func (l *look) tell(ctx context.Context, b *v1alpha1.Backup, reason, message string) error {
	if stalled := conditions.Get(b, v1alpha1.ConditionStalled); b.DeletionTimestamp != nil ||
		(wasTold(b) && stalled.Reason == reason && stalled.Message == message) {
		return nil
	}
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	_, err := l.write(ctx, b, func(now *v1alpha1.Backup) { stall(now, reason, message) })
	return err
}

// stall says on a bare object why it has no status.
func stall(b *v1alpha1.Backup, reason, message string) {
	if run.Decided(b) {
		return
	}
	b.Status.Message = run.Short(message)
	conditions.Summary(b, conditions.Stalled, reason, message)
}

// write changes the status of an object, unless it is another one by now, or gone. What
// others write at the same time stays. It says whether there was anything to be written.
// The error is errRefused if that is not to be had for this object.
func (l *Looker) write(ctx context.Context, object *v1alpha1.Backup, change func(*v1alpha1.Backup)) (written bool, err error) {
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
	case isRefusal(err):
		return false, fmt.Errorf("the status of Backup %s is %w: %w", object.Name, errRefused, err)
	case err != nil:
		return false, fmt.Errorf("writing the status of Backup %s: %w", object.Name, err)
	}
	return written, nil
}
