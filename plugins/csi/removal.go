// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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

// annotationReminded has the time of the last reminder of a content that is not ready; see reminderInterval.
const annotationReminded = "grapnel.dev/csi-reminded"

const (
	// noticeTimeout is how long csi-snapshotter may take to notice a content. Without it, the
	// cluster has no csi-snapshotter for the driver.
	noticeTimeout = 45 * time.Second
	// removalTimeout is how long the deletion of one snapshot is waited for.
	removalTimeout = 3 * time.Minute
	// waitInterval is how often the state of something that is being removed is read.
	waitInterval = 250 * time.Millisecond
)

// requestRemoval deletes a VolumeSnapshot that this plugin created, and its snapshot in the driver,
// without waiting for their end. It is not an error if they do not exist.
func (c *cluster) requestRemoval(ctx context.Context, key types.NamespacedName, uid types.UID) (err error) {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer c.discard(uid, &err)()
	content, err := c.getContent(ctx, contentNameOf(uid))
	if err != nil {
		return err
	}
	if content != nil && !belongsTo(content, operationID{object: key, uid: uid}) {
		content = nil
	}
	if content != nil {
		c.removing.add(content.Name)
		if err := c.patchForRemoval(ctx, content.Name, false); err != nil {
			return err
		}
	}
	err = api.snapshots.SnapshotV1().VolumeSnapshots(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid},
	})
	switch {
	case err == nil:
		return nil // snapshot-controller deletes the content
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return fmt.Errorf("deleting VolumeSnapshot %s: %w", key, err)
	case content == nil:
		return nil
	}
	if err := c.patchForRemoval(ctx, content.Name, true); err != nil {
		return err
	}
	return c.deleteContentObject(ctx, content.Name)
}

// discard remembers that the contents of an object must not be retained anymore. The caller defers what it returns: if the
// removal could not be requested, the object may still be used.
func (c *cluster) discard(uid types.UID, err *error) (end func()) {
	c.discarded.add(string(uid))
	return func() {
		if *err != nil {
			c.discarded.remove(string(uid))
		}
	}
}

// patchForRemoval prepares a content for its deletion: the snapshot is deleted with it. Without a
// VolumeSnapshot, csi-snapshotter needs an annotation that otherwise snapshot-controller sets.
func (c *cluster) patchForRemoval(ctx context.Context, name string, withoutSnapshot bool) error {
	annotations := map[string]any{annotationRemovalRequested: time.Now().UTC().Format(time.RFC3339)}
	if withoutSnapshot {
		annotations[annotationBeingDeleted] = "yes"
	}
	return c.patchContent(ctx, name, map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"deletionPolicy": snapshotv1.VolumeSnapshotContentDelete},
	})
}

// patchContent changes a content, if it exists.
func (c *cluster) patchContent(ctx context.Context, name string, change map[string]any, subresources ...string) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	_, err = api.snapshots.SnapshotV1().VolumeSnapshotContents().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("changing VolumeSnapshotContent %s: %w", name, err)
	}
	return nil
}

func (c *cluster) deleteContentObject(ctx context.Context, name string) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	return deleteIfExists(ctx, api.snapshots.SnapshotV1().VolumeSnapshotContents(), "VolumeSnapshotContent", name)
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
	// Only when csi-snapshotter has written the status for the first time, it no longer replaces
	// it as a whole. Without the handle in the status, it would not delete the snapshot.
	status, err := c.waitForStatus(ctx, name)
	switch {
	case err != nil:
		return errors.Join(c.abandonContent(context.WithoutCancel(ctx), name), fmt.Errorf(
			"csi-snapshotter of the CSI driver %s did not respond: install the driver in this cluster, or delete its snapshot %q by hand: %w",
			s.driver, s.handle, err))
	case status != nil && status.SnapshotHandle == nil:
		if err := c.patchContent(ctx, name, map[string]any{"status": map[string]any{"snapshotHandle": s.handle}}, "status"); err != nil {
			return err
		}
	}
	if err := c.deleteContentObject(ctx, name); err != nil {
		return err
	}
	return c.waitForContentRemoval(ctx, name)
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

// waitForStatus waits until csi-snapshotter has written the status of a content. It returns nil
// if the content does not exist anymore, or is being deleted.
func (c *cluster) waitForStatus(ctx context.Context, name string) (status *snapshotv1.VolumeSnapshotContentStatus, err error) {
	err = wait.PollUntilContextTimeout(ctx, waitInterval, noticeTimeout, true, func(ctx context.Context) (bool, error) {
		content, err := c.getContent(ctx, name)
		if err != nil {
			return false, err
		}
		if content == nil || content.DeletionTimestamp != nil {
			return true, nil
		}
		status = content.Status
		return status != nil, nil
	})
	return status, err
}

// abandonContent removes a content that csi-snapshotter does not process. The snapshot stays.
func (c *cluster) abandonContent(ctx context.Context, name string) error {
	if err := c.patchContent(ctx, name, map[string]any{"metadata": map[string]any{"finalizers": nil}}); err != nil {
		return err
	}
	return c.deleteContentObject(ctx, name)
}

// continueRemoval requests the removal of a content again. If its deletion has not begun, snapshot-controller may have
// deleted the VolumeSnapshot without it, because it did not know yet that the policy is Delete.
func (c *cluster) continueRemoval(ctx context.Context, content *snapshotv1.VolumeSnapshotContent) error {
	if content.DeletionTimestamp == nil {
		return c.removeLiveContent(ctx, content)
	}
	return c.patchForRemoval(ctx, content.Name, false)
}

// readsPerRequest is how often the state of something that is being removed is read before its removal is requested again.
const readsPerRequest = 8

// waitForContentRemoval waits until a content does not exist anymore.
func (c *cluster) waitForContentRemoval(ctx context.Context, name string) error {
	reads, driver := 0, ""
	err := wait.PollUntilContextTimeout(ctx, waitInterval, removalTimeout, true, func(ctx context.Context) (bool, error) {
		content, err := c.getContent(ctx, name)
		if err != nil || content == nil {
			return content == nil, err
		}
		driver = content.Spec.Driver
		if reads++; reads%readsPerRequest == 0 {
			err = c.continueRemoval(ctx, content)
		}
		return false, err
	})
	if err != nil && driver != "" {
		return fmt.Errorf("the CSI driver %s has not deleted a snapshot yet: see the events of VolumeSnapshotContent %s; "+
			"csi-snapshotter retries the deletion: %w", driver, name, err)
	}
	return err
}
