// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationSelectedNode is on claims that a pod uses, if their volume waits for the first one.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

const (
	// claimTimeout is how long a claim may take to be created, after which it is known that the API
	// server rejected it, or that it existed before.
	claimTimeout = 2 * time.Minute
	// contentTimeout is how long the content may take to follow its VolumeSnapshot.
	contentTimeout = time.Minute
	// consumerTimeout is how long a Restore waits for a pod to use a claim whose volume waits for the
	// first one. Afterwards, its volume is provisioned when a pod uses it.
	consumerTimeout = 30 * time.Second
	// leftoversTimeout is how long a Restore waits until the objects of a bound claim are removed.
	leftoversTimeout = 30 * time.Second
	// eventsAfter is the age of an operation from which the events of a claim that is not bound are read.
	eventsAfter = 10 * time.Second
)

// observedRestore is what the progress of a restored claim depends on.
type observedRestore struct {
	operation operationID
	takeover  takeover
	snapshot  *snapshotv1.VolumeSnapshot
	claim     *corev1.PersistentVolumeClaim
	// waitsForConsumer reports that the volume is provisioned when a pod uses the claim, and none does.
	waitsForConsumer bool
	// provisioningError is the last error of the provisioner, "" if there is none.
	provisioningError string
	// age is how long this process has observed the operation, and leavingFor how long it has observed that the
	// VolumeSnapshot is no longer needed. Clocks of different machines are not compared.
	age, leavingFor time.Duration
}

// observeRestore reads the state of a restored claim.
func (c *cluster) observeRestore(ctx context.Context, id operationID) (observedRestore, error) {
	observed := observedRestore{operation: id, age: c.restoring.add(id.String())}
	var err error
	if observed.snapshot, err = c.getOperationSnapshot(ctx, id); err != nil {
		return observed, err
	}
	if observed.snapshot != nil {
		if observed.takeover = c.observeTakeover(id, observed.snapshot.Annotations[annotationOperation]); observed.takeover.happened {
			return observed, nil
		}
	}
	api, err := c.connect()
	if err != nil {
		return observed, err
	}
	claim, err := api.core.CoreV1().PersistentVolumeClaims(id.object.Namespace).Get(ctx, id.member, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return observed, nil
	case err != nil:
		return observed, fmt.Errorf("reading the claim: %w", err)
	}
	observed.claim = claim
	if claim.Status.Phase == corev1.ClaimBound {
		if observed.snapshot != nil {
			observed.leavingFor = c.leaving.add(string(id.uid))
		}
		return observed, nil
	}
	if observed.waitsForConsumer, err = c.waitsForConsumer(ctx, claim); err != nil {
		return observed, err
	}
	if observed.age > eventsAfter && !observed.waitsForConsumer {
		observed.provisioningError, err = c.lastProvisioningError(ctx, claim)
	}
	return observed, err
}

// waitsForConsumer reports whether the volume of a claim is provisioned only when a pod uses the claim,
// and none does.
func (c *cluster) waitsForConsumer(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" || claim.Annotations[annotationSelectedNode] != "" {
		return false, nil
	}
	api, err := c.connect()
	if err != nil {
		return false, err
	}
	class, err := api.core.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading StorageClass %s: %w", *claim.Spec.StorageClassName, err)
	}
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

// lastProvisioningError returns the last error that the provisioner reports in the events of a claim.
func (c *cluster) lastProvisioningError(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	api, err := c.connect()
	if err != nil {
		return "", err
	}
	events, err := api.core.CoreV1().Events(claim.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.uid": string(claim.UID), "reason": "ProvisioningFailed",
	}.String(), Limit: 20})
	if err != nil {
		return "", fmt.Errorf("reading the events of the claim: %w", err)
	}
	var last *corev1.Event
	for i := range events.Items {
		if event := &events.Items[i]; last == nil || event.LastTimestamp.After(last.LastTimestamp.Time) {
			last = event
		}
	}
	if last == nil {
		return "", nil
	}
	return truncate(last.Message), nil
}

// decideRestore returns what the state of a restored claim means for its operation, and whether the
// VolumeSnapshot and its content are removed.
func decideRestore(o observedRestore) (progress *item.Progress, remove bool) {
	progress = &item.Progress{NTotal: 2, OperationUnits: "stages", Started: o.operation.started}
	isOwn := o.claim != nil && o.claim.Spec.DataSourceRef != nil && o.claim.Spec.DataSourceRef.Name == o.operation.object.Name
	switch {
	case isOwn && o.claim.Status.Phase == corev1.ClaimBound:
		progress.NCompleted = 1
		if o.snapshot != nil && o.leavingFor < leftoversTimeout {
			progress.Description = "the claim is bound to its restored volume; removing the VolumeSnapshot that it was restored from"
			return progress, true
		}
		progress.Completed, progress.NCompleted, progress.Description = true, progress.NTotal, "the claim is bound to its restored volume"
		return progress, true // without the VolumeSnapshot, there may still be its content: the plugin may have ended in between
	case !isOwn:
		return decideMissingClaim(o, progress)
	case o.snapshot == nil || o.snapshot.DeletionTimestamp != nil:
		return failedProgress(progress, fmt.Sprintf("VolumeSnapshot %s was deleted before the claim was bound: delete the claim and restore again",
			o.operation.object)), true
	}
	return decidePendingClaim(o, progress)
}

// decideMissingClaim is decideRestore while there is no claim with the data of the operation.
func decideMissingClaim(o observedRestore, progress *item.Progress) (_ *item.Progress, remove bool) {
	claim := o.operation.object.Namespace + "/" + o.operation.member
	switch {
	case o.age < claimTimeout && !isPresent(o.snapshot):
		// The claim must not be waited for: a later call took the operation over, and was canceled.
		return failedProgress(progress, fmt.Sprintf("VolumeSnapshot %s was deleted before the claim was created: restore again", o.operation.object)), false
	case o.age < claimTimeout:
		progress.Description = "waiting for the claim to be created"
		return progress, false
	case o.claim == nil:
		return failedProgress(progress, fmt.Sprintf("the claim %s was not created, so nothing was restored into it: see the errors of the Restore", claim)), true
	}
	return failedProgress(progress, fmt.Sprintf("the claim %s has other data than the backup, because it existed before: "+
		"delete the claim and restore again, or restore into another namespace", claim)), true
}

// decidePendingClaim is decideRestore for a claim that is not bound yet.
func decidePendingClaim(o observedRestore, progress *item.Progress) (_ *item.Progress, remove bool) {
	const again = "delete the claim, and restore it from another backup"
	text := errorText(o.snapshot)
	switch {
	case isGone(text):
		return failedProgress(progress, fmt.Sprintf("the CSI driver %s does not have the snapshot anymore: %s; %s",
			o.snapshot.Annotations[annotationDriver], text, again)), true
	case isGone(o.provisioningError):
		return failedProgress(progress, fmt.Sprintf("the volume cannot be provisioned from its snapshot: %s; if the snapshot does not exist anymore, %s",
			o.provisioningError, again)), true
	case !isBound(o.snapshot) && text != "" && o.age > contentTimeout:
		return failedProgress(progress, fmt.Sprintf("the snapshot of the claim cannot be used: %s; if the Restore excludes volumesnapshotcontents.%s, "+
			"include them; delete the claim and restore again", text, snapshotGroup)), true
	case o.waitsForConsumer && isReady(o.snapshot) && o.age > consumerTimeout:
		progress.Completed, progress.NCompleted = true, progress.NTotal
		progress.Description = "the snapshot is ready; the volume is provisioned from it when a pod uses the claim"
	case text != "":
		progress.Description = "the snapshot is not usable yet: " + text
	case o.provisioningError != "":
		progress.Description = "the volume is not provisioned yet: " + o.provisioningError
	case !isReady(o.snapshot):
		progress.Description = "waiting for snapshot-controller and csi-snapshotter to bind the snapshot"
	case o.waitsForConsumer:
		progress.Description = "waiting for a pod that uses the claim"
	default:
		progress.Description = "waiting for the CSI driver to provision the volume from the snapshot"
	}
	return progress, false
}

// removeRestoreObjects deletes the VolumeSnapshot of a restore, and its content. The snapshot itself
// stays, because the content is retained. snapshot-controller waits while a volume is provisioned from it.
func (c *cluster) removeRestoreObjects(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.leaveGroup(ctx, key, uid); err != nil {
		return err
	}
	existed, err := deleteWithUID(ctx, api.snapshots.SnapshotV1().VolumeSnapshots(key.Namespace), "VolumeSnapshot", key, uid)
	if err != nil {
		return err
	}
	content, err := c.snapshotContents.get(ctx, key.Name)
	switch ref := (*corev1.ObjectReference)(nil); {
	case err != nil || content == nil:
		return err
	default:
		ref = &content.Spec.VolumeSnapshotRef
		if ref.UID != uid || content.Spec.Source.SnapshotHandle == nil || content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain {
			return nil // it is not the content of this restore
		}
	}
	if !existed {
		if _, err := c.snapshotContents.patch(ctx, key.Name, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotationBeingDeleted: "yes"}},
		}); err != nil {
			return err
		}
	}
	return errors.Join(c.snapshotContents.delete(ctx, key.Name), c.groupContents.delete(ctx, key.Name))
}

// leaveGroup removes the group from the status of the VolumeSnapshot of a restore. snapshot-controller does not delete a
// VolumeSnapshot while its namespace has the VolumeGroupSnapshot that its snapshot was taken with.
func (c *cluster) leaveGroup(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	snapshot, err := c.readSnapshot(ctx, key, uid)
	if err != nil || snapshot == nil || snapshot.Status == nil || snapshot.Status.VolumeGroupSnapshotName == nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	snapshot.Status.VolumeGroupSnapshotName = nil
	_, err = api.snapshots.SnapshotV1().VolumeSnapshots(key.Namespace).UpdateStatus(ctx, snapshot, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("changing the status of VolumeSnapshot %s: %w", key, err)
	}
	return nil // it is called again until the VolumeSnapshot no longer exists
}
