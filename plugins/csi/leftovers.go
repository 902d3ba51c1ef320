// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// leftoversInterval is how often the VolumeSnapshots of restores are listed. Usually there are none.
	leftoversInterval = 30 * time.Second
	// orphanTimeout is how long this process observes a VolumeSnapshot without its claim before it is removed: until long
	// after the operation that waits for the claim has ended. Its creationTimestamp does not count, because the clock of
	// the API server may be another one.
	orphanTimeout = time.Hour
)

// removeLeftoversRegularly removes the VolumeSnapshots of restores that no claim needs anymore, until ctx
// ends: a claim may be bound long after its Restore, when its first pod starts.
func (c *cluster) removeLeftoversRegularly(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := errors.Join(c.removeLeftovers(ctx), c.continueRemovals(ctx)); err != nil && ctx.Err() == nil {
			slog.Info("Removing snapshots and the VolumeSnapshots of earlier restores failed; it is retried", "reason", err.Error())
		}
	}, leftoversInterval, 0.2, true)
}

// removeLeftovers removes the VolumeSnapshots of restores that no claim needs anymore.
func (c *cluster) removeLeftovers(ctx context.Context) error {
	snapshots, err := c.listSnapshots(ctx, metav1.NamespaceAll, metav1.ListOptions{LabelSelector: labelRunUID})
	if err != nil {
		return err
	}
	return concurrently(len(snapshots), func(i int) error {
		snapshot := &snapshots[i]
		if snapshot.Annotations[annotationClaim] == "" || snapshot.Spec.Source.VolumeSnapshotContentName == nil {
			return nil // it is of a backup
		}
		isNeeded, err := c.isNeeded(ctx, snapshot)
		if err != nil || isNeeded {
			return err
		}
		return c.removeRestoreObjects(ctx, types.NamespacedName{Namespace: snapshot.Namespace, Name: snapshot.Name}, snapshot.UID)
	})
}

// continueRemovals makes csi-snapshotter reconcile the contents that are still being removed; see
// annotationRemovalRequested.
func (c *cluster) continueRemovals(ctx context.Context) error {
	names := c.removing.keys()
	return concurrently(len(names), func(i int) error {
		content, err := c.snapshotContents.get(ctx, names[i])
		switch {
		case err != nil:
			return err
		case content == nil || content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete:
			c.removing.remove(names[i])
			return nil
		}
		return c.snapshotContents.continueRemoval(ctx, content)
	})
}

// isNeeded reports whether a claim may still need the VolumeSnapshot of a restore.
func (c *cluster) isNeeded(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) (bool, error) {
	api, err := c.connect()
	if err != nil {
		return false, err
	}
	claim, err := getIfExists(ctx, api.core.CoreV1().PersistentVolumeClaims(snapshot.Namespace), "PersistentVolumeClaim", snapshot.Annotations[annotationClaim])
	if err != nil {
		return false, err
	}
	key := string(snapshot.UID)
	if claim == nil || claim.Spec.DataSourceRef == nil || claim.Spec.DataSourceRef.Name != snapshot.Name {
		return c.orphans.add(key) < orphanTimeout, nil
	}
	c.orphans.remove(key)
	return claim.Status.Phase != corev1.ClaimBound, nil
}
