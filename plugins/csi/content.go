// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// restoreContent is a RestoreItemAction for archived contents. A content is not restored as it is, but has
// the handle that the VolumeSnapshot of a restored claim needs.
type restoreContent struct{ cluster *cluster }

// AppliesTo selects the contents.
func (restoreContent) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"volumesnapshotcontents." + snapshotGroup}}, nil
}

// Execute creates the content for the VolumeSnapshot that restoreClaim created. Without one, no claim of
// the Restore needs the content.
func (r restoreContent) Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	var archived snapshotv1.VolumeSnapshotContent
	if err := fromUnstructured(req.ItemFromBackup, &archived); err != nil {
		return nil, err
	}
	if err := r.cluster.createRestoreContent(ctx, req.Restore, &archived); err != nil {
		return nil, err
	}
	return &item.RestoreResponse{SkipRestore: true}, nil
}

// createRestoreContent creates the content of the VolumeSnapshot of a restore, if there is one.
func (c *cluster) createRestoreContent(ctx context.Context, restore item.Restore, archived *snapshotv1.VolumeSnapshotContent) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	namespace := targetNamespace(restore, archived.Spec.VolumeSnapshotRef.Namespace)
	name := restoreSnapshotName(restore, archived.Name)
	snapshot, err := api.snapshots.SnapshotV1().VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading VolumeSnapshot %s/%s: %w", namespace, name, err)
	case snapshot.Labels[labelRunUID] != restore.UID || snapshot.DeletionTimestamp != nil:
		return nil
	}
	content, err := c.newRestoreContent(ctx, snapshot, archived)
	if err != nil {
		return err
	}
	if err := c.createRestoreGroupContent(ctx, content, groupHandleOf(archived)); err != nil {
		return err
	}
	_, err = api.snapshots.SnapshotV1().VolumeSnapshotContents().Create(ctx, content, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the VolumeSnapshotContent to restore from: %w", err)
	}
	return nil
}

// newRestoreContent returns the content of a VolumeSnapshot, with the handle of an archived content.
func (c *cluster) newRestoreContent(
	ctx context.Context, snapshot *snapshotv1.VolumeSnapshot, archived *snapshotv1.VolumeSnapshotContent,
) (*snapshotv1.VolumeSnapshotContent, error) {
	stored, err := newStoredSnapshot(archived)
	switch {
	case err != nil:
		return nil, err
	case stored.handle == "":
		return nil, errors.New("it has no handle: the backup was stored before the snapshot was taken; restore from another backup")
	case stored.driver != snapshot.Annotations[annotationDriver]:
		return nil, fmt.Errorf("it is of the CSI driver %s, but its claim of %s: the archive is damaged or was made by something else",
			stored.driver, snapshot.Annotations[annotationDriver])
	}
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: snapshot.Name, Labels: snapshot.Labels},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain, Driver: stored.driver, SourceVolumeMode: archived.Spec.SourceVolumeMode,
			Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &stored.handle},
			VolumeSnapshotRef: corev1.ObjectReference{
				APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshot",
				Namespace: snapshot.Namespace, Name: snapshot.Name, UID: snapshot.UID,
			},
		},
	}
	// Some drivers need the Secret of the class to find a snapshot.
	if stored.class != "" {
		class, err := c.getClass(ctx, stored.class, stored.driver)
		if err != nil {
			return nil, err
		}
		if class != nil {
			content.Spec.VolumeSnapshotClassName = &class.Name
		}
	}
	return content, nil
}

// createRestoreGroupContent creates the VolumeGroupSnapshotContent of a snapshot that was taken with others. Without
// one, snapshot-controller does not update the VolumeSnapshot if the driver says which group a snapshot belongs to. In
// the cluster of the backup there may be another one.
func (c *cluster) createRestoreGroupContent(ctx context.Context, member *snapshotv1.VolumeSnapshotContent, group string) error {
	ref := member.Spec.VolumeSnapshotRef
	if err := validateStored(member.Spec.Driver, ref.Namespace, group); group == "" || err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	_, err = api.snapshots.GroupsnapshotV1().VolumeGroupSnapshotContents().Create(ctx, &groupsnapshotv1.VolumeGroupSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: member.Name, Labels: member.Labels},
		Spec: groupsnapshotv1.VolumeGroupSnapshotContentSpec{
			DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain, Driver: member.Spec.Driver,
			Source: groupsnapshotv1.VolumeGroupSnapshotContentSource{GroupSnapshotHandles: &groupsnapshotv1.GroupSnapshotHandles{
				VolumeGroupSnapshotHandle: group, VolumeSnapshotHandles: []string{*member.Spec.Source.SnapshotHandle},
			}},
			// There is no such VolumeGroupSnapshot, but the API demands a name.
			VolumeGroupSnapshotRef: corev1.ObjectReference{
				APIVersion: groupsnapshotv1.SchemeGroupVersion.String(), Kind: "VolumeGroupSnapshot", Namespace: ref.Namespace, Name: member.Name,
			},
		},
	}, metav1.CreateOptions{})
	// Where the API is not served, snapshot-controller does not know groups.
	if err != nil && !apierrors.IsAlreadyExists(err) && !isNotServed(err) {
		return fmt.Errorf("creating the VolumeGroupSnapshotContent to restore from: %w", err)
	}
	return nil
}
