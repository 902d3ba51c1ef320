// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// parameterStorageClass names the StorageClass of restored claims that had none.
const parameterStorageClass = "storageClass"

// annotationDefaultStorageClass marks the default StorageClass.
const annotationDefaultStorageClass = "storageclass.kubernetes.io/is-default-class"

// restorePollInterval is how often the progress of a restored claim is polled.
const restorePollInterval = 500 * time.Millisecond

// bindAnnotations are the annotations of the controllers that bound the archived claim.
var bindAnnotations = []string{
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", annotationSelectedNode,
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
}

// restoreClaim is an AsyncRestoreItemAction that restores claims from their snapshots.
type restoreClaim struct{ cluster *cluster }

// AppliesTo selects all claims.
func (restoreClaim) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

// AreAdditionalItemsReady is not called: the claim need not wait for its snapshot.
func (restoreClaim) AreAdditionalItemsReady(context.Context, *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return true, nil
}

// Start creates the VolumeSnapshot that a claim is restored from. Its content follows: the archived
// content, which has the handle, is an additional item, for which restoreContent is called.
func (a restoreClaim) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	value := req.ItemFromBackup.GetAnnotations()[annotationSnapshot]
	if value == "" {
		return nil, nil //nolint:nilnil // nil changes nothing
	}
	ref, err := parseSnapshotRef(value)
	if err != nil {
		return nil, fmt.Errorf("its annotation %s cannot be read: %w; remove the annotation from the claim before the next backup, "+
			"and restore without the action %s", annotationSnapshot, err, actionName)
	}
	class, err := a.cluster.chooseStorageClass(ctx, req.Item, ref.Driver)
	if err != nil {
		return nil, err
	}
	token, started := newToken(), time.Now()
	snapshot, err := a.cluster.createSnapshot(ctx, newRestoreSnapshot(req, ref, token))
	if isNotServed(err) {
		err = fmt.Errorf("%w: %s, and restore again", errNotServed, installSnapshotter)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the VolumeSnapshot to restore from: %w", err)
	}
	claim, err := newRestoredClaim(req, snapshot.Name, class)
	if err != nil {
		return nil, err
	}
	sdk.Logger(ctx).Info("Restoring a claim from a snapshot", "claim", req.Item.GetName(), "driver", ref.Driver, "volumeSnapshot", snapshot.Name)
	return &asyncrestoreitemv1.Started{
		RestoreResponse: item.RestoreResponse{
			Item:            claim,
			AdditionalItems: []item.Ref{{Group: snapshotGroup, Resource: "volumesnapshotcontents", Name: ref.Content}},
		},
		OperationID: operationID{
			kind: operationRestore, object: types.NamespacedName{Namespace: snapshot.Namespace, Name: snapshot.Name},
			uid: snapshot.UID, token: token, member: req.Item.GetName(), started: started,
		}.String(),
		PollInterval: restorePollInterval,
	}, nil
}

// targetNamespace returns the namespace that a namespace of the backup is restored into.
func targetNamespace(restore item.Restore, namespace string) string {
	return cmp.Or(restore.NamespaceMapping[namespace], namespace)
}

// restoreSnapshotName returns the name of the VolumeSnapshot of a restore, for an archived content.
func restoreSnapshotName(restore item.Restore, content string) string {
	return nameFor("restore", restore.UID, content)
}

// newRestoreSnapshot returns the VolumeSnapshot to restore a claim from. Its content has the same name.
func newRestoreSnapshot(req *item.RestoreRequest, ref snapshotRef, token string) *snapshotv1.VolumeSnapshot {
	name := restoreSnapshotName(req.Restore, ref.Content)
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: targetNamespace(req.Restore, req.Item.GetNamespace()), Name: name,
			Labels: runLabels(labelRestoreName, req.Restore.Name, req.Restore.UID),
			Annotations: map[string]string{
				annotationOperation: token, annotationClaim: req.Item.GetName(), annotationDriver: ref.Driver,
			},
		},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &name}},
	}
}

// newRestoredClaim returns the claim to create. It gets a new volume from the snapshot, which is at
// least as large as the old one was.
func newRestoredClaim(req *item.RestoreRequest, snapshot, class string) (*unstructured.Unstructured, error) {
	var archived corev1.PersistentVolumeClaim
	if err := fromUnstructured(req.ItemFromBackup, &archived); err != nil {
		return nil, err
	}
	claim := req.Item
	annotations := claim.GetAnnotations()
	for _, key := range append(slices.Clone(bindAnnotations), annotationSnapshot) {
		delete(annotations, key)
	}
	claim.SetAnnotations(annotations)
	for _, field := range []string{"volumeName", "dataSource", "dataSourceRef", "selector"} {
		unstructured.RemoveNestedField(claim.Object, "spec", field)
	}
	source := map[string]any{"apiGroup": snapshotGroup, "kind": "VolumeSnapshot", "name": snapshot}
	size := archived.Spec.Resources.Requests[corev1.ResourceStorage]
	if capacity := archived.Status.Capacity[corev1.ResourceStorage]; capacity.Cmp(size) > 0 {
		size = capacity
	}
	return claim, errors.Join(
		unstructured.SetNestedMap(claim.Object, source, "spec", "dataSourceRef"),
		setIfNot(claim, class, "", "spec", "storageClassName"),
		setIfNot(claim, size.String(), resource.NewQuantity(0, resource.BinarySI).String(), "spec", "resources", "requests", "storage"),
	)
}

// setIfNot sets a field to a value, unless the value is the excluded one.
func setIfNot(object *unstructured.Unstructured, value, excluded string, path ...string) error {
	if value == excluded {
		return nil
	}
	return unstructured.SetNestedField(object.Object, value, path...)
}

// chooseStorageClass returns the StorageClass for a restored claim, "" for the one that it has. Claims
// of static volumes may have none, but a volume from a snapshot must be provisioned.
func (c *cluster) chooseStorageClass(ctx context.Context, claim *unstructured.Unstructured, driver string) (string, error) {
	api, err := c.connect()
	if err != nil {
		return "", err
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	if name == "" {
		name = sdk.Parameters(ctx)[parameterStorageClass]
	}
	if name != "" {
		class, err := api.core.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return name, nil // another action may replace it, or a user create it
		case err != nil:
			return "", fmt.Errorf("reading StorageClass %s: %w", name, err)
		case class.Provisioner != driver:
			return "", fmt.Errorf("its StorageClass %s is of the CSI driver %s here, but its snapshot of %s: "+
				"restore into a cluster where that class is of the same driver", name, class.Provisioner, driver)
		}
		return name, nil
	}
	list, err := api.core.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing StorageClasses: %w", err)
	}
	return onlyStorageClass(list.Items, driver)
}

// onlyStorageClass returns the default class of a driver, or its only one.
func onlyStorageClass(classes []storagev1.StorageClass, driver string) (string, error) {
	var names []string
	for i := range classes {
		if classes[i].Provisioner != driver {
			continue
		}
		if classes[i].Annotations[annotationDefaultStorageClass] == "true" {
			return classes[i].Name, nil
		}
		names = append(names, classes[i].Name)
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("it has no StorageClass, and there is none of the CSI driver %s: create one, and restore again", driver)
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("it has no StorageClass, and there are several of the CSI driver %s (%s): set the annotation %s: \"true\" on one of them, "+
		"or the parameter %s of the action %s in spec.parameters of the Restore, and restore again",
		driver, joinSome(names), annotationDefaultStorageClass, parameterStorageClass, actionName)
}

// Progress returns the progress of a restored claim. When the claim is bound, it removes the
// VolumeSnapshot and its content; the snapshot itself stays.
func (a restoreClaim) Progress(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	id, err := parseOperationID(req.OperationID, operationRestore)
	if err != nil {
		return nil, err
	}
	observed, err := a.cluster.observeRestore(ctx, id)
	if err != nil {
		return nil, err
	}
	if observed.takeover.happened {
		return decideTakenOver(id, observed.takeover), nil
	}
	progress, remove := decideRestore(observed)
	a.cluster.recordCompletion(id, progress)
	if remove {
		if err := a.cluster.removeRestoreObjects(ctx, id.object, id.uid); err != nil {
			return nil, err
		}
	}
	return progress, nil
}

// Cancel removes the VolumeSnapshot, if it still belongs to this operation, which has not ended. A claim that
// is not bound yet stays Pending.
func (a restoreClaim) Cancel(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	id, err := parseOperationID(req.OperationID, operationRestore)
	if err != nil {
		return err
	}
	observed, err := a.cluster.observeRestore(ctx, id)
	if err != nil {
		return err
	}
	if observed.takeover.happened {
		a.cluster.canceled.add(req.OperationID)
		return nil
	}
	if progress, _ := decideRestore(observed); progress.Completed {
		return nil
	}
	return a.cluster.removeRestoreObjects(ctx, id.object, id.uid)
}

// isGone reports whether an error of a driver means that it does not have the snapshot, or that no
// retry helps for another reason.
func isGone(message string) bool {
	// The first text is that of csi-snapshotter, for drivers that list snapshots.
	return strings.Contains(message, "not find snapshot") || strings.Contains(message, "code = NotFound") ||
		strings.Contains(message, "code = InvalidArgument") || strings.Contains(message, "is less than the size")
}
