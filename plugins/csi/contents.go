// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// contents are all contents of one kind: VolumeSnapshotContents, or VolumeGroupSnapshotContents.
type contents[T any] struct {
	kind string
	// noun is for what a content has in the driver, and handleField the field of the status with its handle.
	noun, handleField string
	// beingDeleted is the annotation that lets csi-snapshotter delete a content whose VolumeSnapshot or VolumeGroupSnapshot is
	// deleted. Otherwise, snapshot-controller sets it.
	beingDeleted string
	connect      func() (contentClient[T], error)
	observe      func(*T) observedContent
	// requestRemoval requests the deletion of a content that is not being deleted.
	requestRemoval func(context.Context, *T) error
}

// contentClient is the client of one kind of contents.
type contentClient[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// observedContent is what both kinds of contents have.
type observedContent struct {
	*metav1.ObjectMeta

	driver string
	policy snapshotv1.DeletionPolicy
	// hasStatus reports that csi-snapshotter has written the status, and hasHandle that the status has a handle.
	hasStatus, hasHandle bool
}

func (c *cluster) newSnapshotContents() contents[snapshotv1.VolumeSnapshotContent] {
	return contents[snapshotv1.VolumeSnapshotContent]{
		kind: "VolumeSnapshotContent", noun: "snapshot", handleField: "snapshotHandle", beingDeleted: annotationBeingDeleted,
		connect: func() (contentClient[snapshotv1.VolumeSnapshotContent], error) {
			api, err := c.connect()
			if err != nil {
				return nil, err
			}
			return api.snapshots.SnapshotV1().VolumeSnapshotContents(), nil
		},
		observe: func(content *snapshotv1.VolumeSnapshotContent) observedContent {
			return observedContent{
				ObjectMeta: &content.ObjectMeta, driver: content.Spec.Driver, policy: content.Spec.DeletionPolicy,
				hasStatus: content.Status != nil, hasHandle: content.Status != nil && content.Status.SnapshotHandle != nil,
			}
		},
		requestRemoval: c.removeLiveContent,
	}
}

func (c *cluster) newGroupContents() contents[groupsnapshotv1.VolumeGroupSnapshotContent] {
	return contents[groupsnapshotv1.VolumeGroupSnapshotContent]{
		kind: "VolumeGroupSnapshotContent", noun: "group snapshot", handleField: "volumeGroupSnapshotHandle", beingDeleted: annotationGroupBeingDeleted,
		connect: func() (contentClient[groupsnapshotv1.VolumeGroupSnapshotContent], error) {
			api, err := c.connect()
			if err != nil {
				return nil, err
			}
			return api.snapshots.GroupsnapshotV1().VolumeGroupSnapshotContents(), nil
		},
		observe: func(content *groupsnapshotv1.VolumeGroupSnapshotContent) observedContent {
			return observedContent{
				ObjectMeta: &content.ObjectMeta, driver: content.Spec.Driver, policy: content.Spec.DeletionPolicy,
				hasStatus: content.Status != nil, hasHandle: content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil,
			}
		},
		requestRemoval: c.removeLiveGroup,
	}
}

// get returns a content, nil if it does not exist.
func (c *contents[T]) get(ctx context.Context, name string) (*T, error) {
	client, err := c.connect()
	if err != nil {
		return nil, err
	}
	return getIfExists(ctx, client, c.kind, name)
}

// delete deletes a content, if it exists.
func (c *contents[T]) delete(ctx context.Context, name string) error {
	client, err := c.connect()
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", c.kind, name, err)
	}
	return nil
}

// patch changes a content. It returns nil if that does not exist.
func (c *contents[T]) patch(ctx context.Context, name string, change map[string]any, subresources ...string) (*T, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	client, err := c.connect()
	if err != nil {
		return nil, err
	}
	content, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	return ifExists(content, err, "changing "+c.kind+" "+name)
}

// retain changes the deletion policy of a content to Retain, and adds the labels of its backup. If the content was changed
// since it was read, it stays as it is until the next call: Cancel may have requested its removal, and the snapshot of a
// removed content with the policy Retain would stay in the driver forever. It returns nil if the content does not exist.
func (c *contents[T]) retain(ctx context.Context, content *T, backup item.Backup) (*T, error) {
	observed := c.observe(content)
	if observed.DeletionTimestamp != nil || observed.policy == snapshotv1.VolumeSnapshotContentRetain && observed.Labels[labelRunUID] == backup.UID {
		return content, nil
	}
	retained, err := c.patch(ctx, observed.Name, map[string]any{
		"metadata": map[string]any{"labels": runLabels(labelBackupName, backup.Name, backup.UID), "resourceVersion": observed.ResourceVersion},
		"spec":     map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentRetain},
	})
	if apierrors.IsConflict(err) {
		return content, nil
	}
	return retained, err
}

// patchForRemoval prepares a content for its deletion: what it has in the driver is deleted with it. isOrphan is for one without
// its VolumeSnapshot or VolumeGroupSnapshot.
func (c *contents[T]) patchForRemoval(ctx context.Context, name string, isOrphan bool) error {
	annotations := map[string]any{annotationRemovalRequested: time.Now().UTC().Format(time.RFC3339)}
	if isOrphan {
		annotations[c.beingDeleted] = "yes"
	}
	_, err := c.patch(ctx, name, map[string]any{
		"metadata": map[string]any{"annotations": annotations, "labels": map[string]any{labelRemovalRequested: "true"}},
		"spec":     map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentDelete},
	})
	return err
}

// continueRemoval requests the removal of a content again. If its deletion has not begun, snapshot-controller may have
// deleted the VolumeSnapshot or VolumeGroupSnapshot without it, because it did not know yet that the policy is Delete.
// Otherwise, csi-snapshotter may have replaced the annotation that lets it delete what the driver has.
func (c *contents[T]) continueRemoval(ctx context.Context, content *T) error {
	observed := c.observe(content)
	if observed.DeletionTimestamp == nil {
		return c.requestRemoval(ctx, content)
	}
	return c.patchForRemoval(ctx, observed.Name, true)
}

// awaitRemoval waits until a content does not exist anymore.
func (c *contents[T]) awaitRemoval(ctx context.Context, name string) error {
	reads, driver := 0, ""
	err := wait.PollUntilContextTimeout(ctx, waitInterval, removalTimeout, true, func(ctx context.Context) (bool, error) {
		content, err := c.get(ctx, name)
		if err != nil || content == nil {
			return content == nil, err
		}
		driver = c.observe(content).driver
		if reads++; reads%readsPerRequest == 0 {
			err = c.continueRemoval(ctx, content)
		}
		return false, err
	})
	if err != nil && driver != "" {
		return fmt.Errorf("the CSI driver %s has not deleted a %s yet: see the events of %s %s; csi-snapshotter retries the deletion: %w",
			driver, c.noun, c.kind, name, err)
	}
	return err
}

// deleteStored deletes a content that was created for something in a driver of which only the handle is known. csi-snapshotter
// deletes the content with it. deleteStored waits until that is done.
func (c *contents[T]) deleteStored(ctx context.Context, name, driver, handle string) error {
	// Only when csi-snapshotter has written the status for the first time, it no longer replaces
	// it as a whole. Without the handle in the status, it would not delete the snapshot.
	needsHandle, err := c.awaitStatus(ctx, name)
	if err != nil {
		return errors.Join(c.abandon(context.WithoutCancel(ctx), name), fmt.Errorf(
			"csi-snapshotter of the CSI driver %s did not respond: install the driver in this cluster, or delete its %s %q by hand: %w",
			driver, c.noun, handle, err))
	}
	if needsHandle {
		if _, err := c.patch(ctx, name, map[string]any{"status": map[string]any{c.handleField: handle}}, "status"); err != nil {
			return err
		}
	}
	if err := c.delete(ctx, name); err != nil {
		return err
	}
	return c.awaitRemoval(ctx, name)
}

// awaitStatus waits until csi-snapshotter has written the status of a content, and reports whether that has no handle. A content
// that does not exist anymore, or is being deleted, needs none.
func (c *contents[T]) awaitStatus(ctx context.Context, name string) (needsHandle bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, waitInterval, noticeTimeout, true, func(ctx context.Context) (bool, error) {
		content, err := c.get(ctx, name)
		if err != nil || content == nil {
			return content == nil, err
		}
		observed := c.observe(content)
		needsHandle = observed.DeletionTimestamp == nil && observed.hasStatus && !observed.hasHandle
		return observed.DeletionTimestamp != nil || observed.hasStatus, nil
	})
	return needsHandle, err
}

// abandon removes a content that csi-snapshotter does not process. What it has in the driver stays.
func (c *contents[T]) abandon(ctx context.Context, name string) error {
	if _, err := c.patch(ctx, name, map[string]any{"metadata": map[string]any{"finalizers": nil}}); err != nil {
		return err
	}
	return c.delete(ctx, name)
}
