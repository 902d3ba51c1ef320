// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

const (
	// finalizerGroupContent and annotationGroupBeingDeleted are for groups what finalizerContent and
	// annotationBeingDeleted are for single snapshots.
	finalizerGroupContent       = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection"
	annotationGroupBeingDeleted = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted"
)

// observedGroup is what the progress of a claim of a group depends on. What does not exist is nil.
type observedGroup struct {
	operation    operationID
	takeover     takeover
	group        *groupsnapshotv1.VolumeGroupSnapshot
	groupContent *groupsnapshotv1.VolumeGroupSnapshotContent
	content      *snapshotv1.VolumeSnapshotContent
	failingFor   time.Duration
}

// groupProgress returns the progress of a claim of a group.
func (c *cluster) groupProgress(ctx context.Context, id operationID, backup item.Backup) (*item.Progress, error) {
	observed, err := c.observeGroup(ctx, id, backup)
	if err != nil {
		return nil, err
	}
	if observed.takeover.happened {
		return decideTakenOver(id, observed.takeover), nil
	}
	progress := decideGroupProgress(observed)
	c.recordCompletion(id, progress)
	if progress.Err != "" && observed.group != nil {
		err = c.requestGroupRemoval(ctx, id.object, id.uid)
	}
	return progress, err
}

// observeGroup is observeSnapshot for a claim of a group.
func (c *cluster) observeGroup(ctx context.Context, id operationID, backup item.Backup) (observed observedGroup, err error) {
	claim, contentName, found := strings.Cut(id.member, "~")
	if !found {
		return observed, fmt.Errorf("%w: %w", errNoSuchMember, item.ErrUnknownOperation)
	}
	observed.operation = id
	if observed.group, err = c.readGroup(ctx, id.object, id.uid); err != nil {
		return observed, err
	}
	if observed.group != nil {
		if observed.takeover = c.observeTakeover(id, observed.group.Annotations[annotationMemberPrefix+claim]); observed.takeover.happened {
			return observed, nil
		}
	}
	if observed.groupContent, err = c.groupContents.get(ctx, groupContentNameOf(id.uid)); err != nil {
		return observed, err
	}
	if observed.content, err = c.snapshotContents.get(ctx, contentName); err != nil {
		return observed, err
	}
	if observed.group == nil || observed.group.DeletionTimestamp != nil {
		return observed, nil
	}
	if groupErrorText(observed.group) == "" {
		c.failing.remove(string(id.uid))
	} else {
		observed.failingFor = c.failing.add(string(id.uid))
	}
	err = c.retainGroup(ctx, &observed, backup)
	return observed, err
}

// retainGroup retains the contents of a group, unless it is being removed: see retain.
func (c *cluster) retainGroup(ctx context.Context, observed *observedGroup, backup item.Backup) (err error) {
	id := observed.operation
	// It may have been requested since the group was read.
	if observed.groupContent != nil && observed.groupContent.Labels[labelRemovalRequested] != "" {
		if observed.group, err = c.readGroup(ctx, id.object, id.uid); err != nil {
			return err
		}
	}
	if observed.group == nil || observed.group.DeletionTimestamp != nil || c.discarded.has(string(id.uid)) {
		return nil
	}
	if observed.groupContent != nil {
		if observed.groupContent, err = c.groupContents.retain(ctx, observed.groupContent, backup); err != nil {
			return err
		}
	}
	if observed.content != nil {
		observed.content, err = c.snapshotContents.retain(ctx, observed.content, backup)
	}
	return err
}

// decideGroupProgress returns what the state of a group means for the operation of one of its claims.
func decideGroupProgress(o observedGroup) *item.Progress {
	progress := &item.Progress{NTotal: 2, OperationUnits: "stages", Started: o.operation.started}
	isTaken := isGroupTaken(o.groupContent)
	if isTaken {
		progress.DataCaptured, progress.NCompleted = true, 1
	}
	switch text := groupErrorText(o.group); {
	case !isTaken && (o.group == nil || o.group.DeletionTimestamp != nil):
		return failedProgress(progress, fmt.Sprintf("VolumeGroupSnapshot %s was deleted before the snapshots were taken: back up again", o.operation.object))
	case isTaken && isCaptured(o.content) && isContentReady(o.content):
		progress.Completed, progress.NCompleted = true, progress.NTotal
		progress.Description = "the snapshot is ready to use; it was taken together with those of its group"
	case isTaken:
		progress.Description = "the group snapshot was taken, and the storage is still processing it"
	case text != "" && o.failingFor >= failAfter:
		return failedProgress(progress, fmt.Sprintf("the group snapshot was not taken: %s; fix the cause, which the events of VolumeGroupSnapshot %s show, "+
			"and back up again", text, o.operation.object))
	case text != "":
		progress.Description = "the group snapshot is not taken yet: " + text
	default:
		progress.Description = "waiting for snapshot-controller, csi-snapshotter and the driver to take the group snapshot"
	}
	return progress
}

// isGroupTaken reports whether the driver has taken a group snapshot, whose content is retained.
func isGroupTaken(content *groupsnapshotv1.VolumeGroupSnapshotContent) bool {
	return content != nil && content.DeletionTimestamp == nil && content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain &&
		content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil && content.Status.CreationTime != nil
}

func groupErrorText(group *groupsnapshotv1.VolumeGroupSnapshot) string {
	if group == nil || group.Status == nil || group.Status.Error == nil || group.Status.Error.Message == nil {
		return ""
	}
	return truncate(*group.Status.Error.Message)
}

// cancelGroup removes the whole group, if it still belongs to this operation, which has not ended.
func (c *cluster) cancelGroup(ctx context.Context, id operationID, backup item.Backup) error {
	observed, err := c.observeGroup(ctx, id, backup)
	if err != nil || !observed.takeover.happened && decideGroupProgress(observed).Completed {
		return err
	}
	if c.canceled.add(id.String()); observed.takeover.happened {
		return nil
	}
	return c.requestGroupRemoval(ctx, id.object, id.uid)
}

// readGroup returns a VolumeGroupSnapshot, nil if it does not exist, or has another UID.
func (c *cluster) readGroup(ctx context.Context, key types.NamespacedName, uid types.UID) (*groupsnapshotv1.VolumeGroupSnapshot, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	group, err := getIfExists(ctx, api.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(key.Namespace), "VolumeGroupSnapshot", key.Name)
	if err != nil || group == nil || group.UID != uid {
		return nil, err // another object may have its name
	}
	return group, nil
}

// requestGroupRemoval deletes a VolumeGroupSnapshot with all its snapshots, without waiting for their end.
func (c *cluster) requestGroupRemoval(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	client := api.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(key.Namespace)
	return c.removeInOrder(ctx, client, "VolumeGroupSnapshot", key, uid, func() ([]removable, error) {
		content, err := c.groupContents.get(ctx, groupContentNameOf(uid))
		if err != nil || content == nil || content.Spec.VolumeGroupSnapshotRef.UID != uid {
			return nil, err
		}
		owned := []removable{{&c.groupContents, content.Name}}
		if content.Status == nil {
			return owned, nil
		}
		// The contents of the members are deleted with their VolumeSnapshots.
		for _, member := range content.Status.VolumeSnapshotInfoList {
			owned = append(owned, removable{&c.snapshotContents, memberName("snapcontent", uid, member.VolumeHandle)})
		}
		return owned, nil
	})
}

// removeLiveGroup requests the deletion of a VolumeGroupSnapshotContent with its VolumeGroupSnapshot.
func (c *cluster) removeLiveGroup(ctx context.Context, live *groupsnapshotv1.VolumeGroupSnapshotContent) error {
	ref := live.Spec.VolumeGroupSnapshotRef
	return c.requestGroupRemoval(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, ref.UID)
}

// removeGroupsOfRun deletes all group snapshots with the label of a Backup, and waits until they no longer exist.
func (c *cluster) removeGroupsOfRun(ctx context.Context, uid string) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	options := metav1.ListOptions{LabelSelector: labelRunUID + "=" + uid}
	groups, err := api.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(metav1.NamespaceAll).List(ctx, options)
	if isNotServed(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing VolumeGroupSnapshots: %w", err)
	}
	for i := range groups.Items {
		group := &groups.Items[i]
		if err := c.requestGroupRemoval(ctx, types.NamespacedName{Namespace: group.Namespace, Name: group.Name}, group.UID); err != nil {
			return err
		}
	}
	contents, err := api.snapshots.GroupsnapshotV1().VolumeGroupSnapshotContents().List(ctx, options)
	if err != nil {
		return fmt.Errorf("listing VolumeGroupSnapshotContents: %w", err)
	}
	return concurrently(len(contents.Items), func(i int) error {
		content := &contents.Items[i]
		if err := c.removeLiveGroup(ctx, content); err != nil {
			return err
		}
		err := c.groupContents.awaitRemoval(ctx, content.Name)
		if err == nil {
			c.removed.add(removedKey(uid, content.Name))
		}
		return err
	})
}

// removeArchivedGroup deletes the snapshots of an archived VolumeGroupSnapshotContent.
func (c *cluster) removeArchivedGroup(ctx context.Context, req *item.DeleteRequest) error {
	var archived groupsnapshotv1.VolumeGroupSnapshotContent
	if err := fromUnstructured(req.Item, &archived); err != nil {
		return err
	}
	if archived.Status == nil || archived.Status.VolumeGroupSnapshotHandle == nil {
		return nil // it was never taken
	}
	handles := groupsnapshotv1.GroupSnapshotHandles{VolumeGroupSnapshotHandle: *archived.Status.VolumeGroupSnapshotHandle}
	for _, member := range archived.Status.VolumeSnapshotInfoList {
		handles.VolumeSnapshotHandles = append(handles.VolumeSnapshotHandles, member.SnapshotHandle)
	}
	ref := archived.Spec.VolumeGroupSnapshotRef
	if err := validateStored(archived.Spec.Driver, ref.Namespace, append(handles.VolumeSnapshotHandles, handles.VolumeGroupSnapshotHandle)...); err != nil {
		return err
	}
	live, err := c.groupContents.get(ctx, archived.Name)
	if err != nil {
		return err
	}
	if live != nil && live.Labels[labelRunUID] == req.Backup.UID {
		if err := c.removeLiveGroup(ctx, live); err != nil {
			return err
		}
		return c.groupContents.awaitRemoval(ctx, live.Name)
	}
	for _, handle := range handles.VolumeSnapshotHandles {
		if user, err := c.findUserOfHandle(ctx, archived.Spec.Driver, handle); err != nil || user != "" {
			if err == nil {
				err = fmt.Errorf("the group snapshot is not deleted, because VolumeSnapshotContent %s of this cluster uses it, too: delete that first", user)
			}
			return err
		}
	}
	return c.removeStoredGroup(ctx, archived.Spec.Driver, ref.Namespace, handles, runLabels(labelBackupName, req.Backup.Name, req.Backup.UID))
}

// removeStoredGroup is removeStoredSnapshot for a group.
func (c *cluster) removeStoredGroup(
	ctx context.Context, driver, namespace string, handles groupsnapshotv1.GroupSnapshotHandles, runLabels map[string]string,
) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	name := nameFor("delete-group", driver, handles.VolumeGroupSnapshotHandle)
	_, err = api.snapshots.GroupsnapshotV1().VolumeGroupSnapshotContents().Create(ctx, &groupsnapshotv1.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: runLabels, Finalizers: []string{finalizerGroupContent}},
		Spec: groupsnapshotv1.VolumeGroupSnapshotContentSpec{
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Driver: driver,
			Source: groupsnapshotv1.VolumeGroupSnapshotContentSource{GroupSnapshotHandles: &handles},
			VolumeGroupSnapshotRef: corev1.ObjectReference{
				APIVersion: groupsnapshotv1.SchemeGroupVersion.String(), Kind: "VolumeGroupSnapshot", Namespace: namespace, Name: name,
			},
		},
	}, metav1.CreateOptions{})
	switch {
	case isNotServed(err):
		return fmt.Errorf("the cluster does not serve %s/v1: %s, both with group snapshots, and the CSI driver %s, or delete its group snapshot %q by hand",
			groupSnapshotGroup, installSnapshotter, driver, handles.VolumeGroupSnapshotHandle)
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating a VolumeGroupSnapshotContent for the group snapshot %q: %w", handles.VolumeGroupSnapshotHandle, err)
	}
	return c.groupContents.deleteStored(ctx, name, driver, handles.VolumeGroupSnapshotHandle)
}
