// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What snapshot-controller and csi-snapshotter agree on.
const (
	// finalizerContent holds a VolumeSnapshotContent until csi-snapshotter has deleted its
	// snapshot. Nothing else adds it to a content without a VolumeSnapshot.
	finalizerContent = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	// annotationBeingDeleted lets csi-snapshotter delete a content whose VolumeSnapshot is deleted.
	annotationBeingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	// annotationSecretName and annotationSecretNamespace name the Secret for the deletion.
	annotationSecretName      = "snapshot.storage.kubernetes.io/deletion-secret-name"
	annotationSecretNamespace = "snapshot.storage.kubernetes.io/deletion-secret-namespace"
	// parameterSecretName and parameterSecretNamespace are how a class names it.
	parameterSecretName      = "csi.storage.k8s.io/snapshotter-secret-name"      //nolint:gosec // the key of a parameter
	parameterSecretNamespace = "csi.storage.k8s.io/snapshotter-secret-namespace" //nolint:gosec // the key of a parameter
)

// annotationRemovalRequested has the time of the last request to delete a content. csi-snapshotter does
// not reconcile a content by itself whose deletion was requested while the driver took the snapshot,
// for up to 15 minutes. Each new value makes it do so.
const annotationRemovalRequested = "grapnel.dev/csi-removal-requested"

// labelRemovalRequested marks a content that must not be retained anymore. It is a label because csi-snapshotter replaces all
// annotations of a content with those that it read before.
const labelRemovalRequested = "grapnel.dev/csi-removal-requested"

// annotationReminded has the time of the last reminder of a content that is not ready; see reminderInterval.
const annotationReminded = "grapnel.dev/csi-reminded"

const (
	// noticeTimeout is how long csi-snapshotter may take to notice a content. Without it, the
	// cluster has no csi-snapshotter for the driver.
	noticeTimeout = 45 * time.Second
	// removalTimeout is how long the deletion of one snapshot is waited for.
	removalTimeout = 3 * time.Minute
	// waitInterval is how often the state of something that is being removed is read, and readsPerRequest how often before its
	// removal is requested again.
	waitInterval    = 250 * time.Millisecond
	readsPerRequest = 8
)

// requestRemoval deletes a VolumeSnapshot that this plugin created, and its snapshot in the driver,
// without waiting for their end. It is not an error if they do not exist.
func (c *cluster) requestRemoval(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	return c.removeInOrder(ctx, api.snapshots.SnapshotV1().VolumeSnapshots(key.Namespace), "VolumeSnapshot", key, uid, func() ([]removable, error) {
		content, err := c.snapshotContents.get(ctx, contentNameOf(uid))
		if err != nil || content == nil || !belongsTo(content, operationID{object: key, uid: uid}) {
			return nil, err
		}
		c.removing.add(content.Name)
		return []removable{{&c.snapshotContents, content.Name}}, nil
	})
}

// removable is a content that is removed with its VolumeSnapshot or VolumeGroupSnapshot.
type removable struct {
	contents interface {
		patchForRemoval(ctx context.Context, name string, isOrphan bool) error
		delete(ctx context.Context, name string) error
	}
	name string
}

// removeInOrder requests the deletion of a VolumeSnapshot or VolumeGroupSnapshot, and of its contents with what they have in the
// driver. snapshot-controller deletes the contents, unless there was no such object anymore. find returns the contents: it is
// called when no call of Progress retains further ones.
func (c *cluster) removeInOrder(ctx context.Context, client interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}, kind string, key types.NamespacedName, uid types.UID, find func() ([]removable, error),
) (err error) {
	c.discarded.add(string(uid))
	defer func() {
		if err != nil {
			c.discarded.remove(string(uid)) // it may still be used
		}
	}()
	owned, err := find()
	if err != nil {
		return err
	}
	for _, content := range owned {
		if err := content.contents.patchForRemoval(ctx, content.name, false); err != nil {
			return err
		}
	}
	if existed, err := deleteWithUID(ctx, client, kind, key, uid); existed || err != nil {
		return err
	}
	for _, content := range owned {
		if err := content.contents.patchForRemoval(ctx, content.name, true); err != nil {
			return err
		}
		if err := content.contents.delete(ctx, content.name); err != nil {
			return err
		}
	}
	return nil
}

// storedSnapshot is a snapshot in a driver, as an archive describes it.
type storedSnapshot struct {
	driver, handle string
	// class is the name of its VolumeSnapshotClass, "" if it is not known.
	class string
	// ref is the VolumeSnapshot that it had.
	ref corev1.ObjectReference
	// labels are for the objects that are created for it.
	labels map[string]string
}

// removeStoredSnapshot deletes a snapshot of which only the handle is known. It creates a content
// for it, which csi-snapshotter deletes with the snapshot, and waits until that is done. A
// snapshot that the driver does not know is not an error: CSI demands that of drivers.
func (c *cluster) removeStoredSnapshot(ctx context.Context, s storedSnapshot) error {
	name := nameFor("delete", s.driver, s.handle)
	if err := c.createContentForRemoval(ctx, name, s); err != nil {
		return err
	}
	return c.snapshotContents.deleteStored(ctx, name, s.driver, s.handle)
}

// createContentForRemoval creates the content of a snapshot that is to be deleted, unless an earlier
// attempt did.
func (c *cluster) createContentForRemoval(ctx context.Context, name string, s storedSnapshot) error {
	annotations, class, err := c.deletionSecret(ctx, name, s)
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	_, err = api.snapshots.SnapshotV1().VolumeSnapshotContents().Create(ctx, &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels, Annotations: annotations, Finalizers: []string{finalizerContent}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Driver: s.driver, VolumeSnapshotClassName: class,
			Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &s.handle},
			// There need not be such a VolumeSnapshot, but the API demands a name.
			VolumeSnapshotRef: corev1.ObjectReference{
				APIVersion: snapshotv1.SchemeGroupVersion.String(), Kind: "VolumeSnapshot", Namespace: s.ref.Namespace, Name: name,
			},
		},
	}, metav1.CreateOptions{})
	switch {
	case isNotServed(err):
		return fmt.Errorf("%w: %s and the CSI driver %s, or delete its snapshot %q by hand", errNotServed, installSnapshotter, s.driver, s.handle)
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating a VolumeSnapshotContent for the snapshot %q of the CSI driver %s: %w", s.handle, s.driver, err)
	}
	return nil
}

// deletionSecret returns the annotations that name the Secret that the driver needs to delete a
// snapshot, and the class, if the cluster has it. The Secret is named by the class of this
// cluster, and not by the archive, which may have been changed.
func (c *cluster) deletionSecret(ctx context.Context, content string, s storedSnapshot) (annotations map[string]string, name *string, err error) {
	if s.class == "" {
		return nil, nil, nil
	}
	class, err := c.getClass(ctx, s.class, s.driver)
	if err != nil || class == nil {
		return nil, nil, err
	}
	secret, namespace := class.Parameters[parameterSecretName], class.Parameters[parameterSecretNamespace]
	if secret == "" || namespace == "" {
		return nil, &class.Name, nil
	}
	resolve := strings.NewReplacer("${volumesnapshotcontent.name}", content,
		"${volumesnapshot.namespace}", s.ref.Namespace, "${volumesnapshot.name}", s.ref.Name)
	return map[string]string{
		annotationSecretName: resolve.Replace(secret), annotationSecretNamespace: resolve.Replace(namespace),
	}, &class.Name, nil
}
