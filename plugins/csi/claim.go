// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// observedClaim is what the decision about a claim depends on.
type observedClaim struct {
	claim *corev1.PersistentVolumeClaim
	// volume is the PersistentVolume, nil if the claim has none, or the volume does not exist.
	volume     *corev1.PersistentVolume
	classes    observedClasses
	parameters map[string]string
}

// capturePlan is how the data of a claim is captured.
type capturePlan struct {
	driver, volumeHandle, class string
}

// observeClaim reads what the decision about a claim depends on.
func (c *cluster) observeClaim(ctx context.Context, req *item.BackupRequest) (observedClaim, error) {
	observed := observedClaim{claim: &corev1.PersistentVolumeClaim{}, parameters: sdk.Parameters(ctx)}
	if err := fromUnstructured(req.Item, observed.claim); err != nil {
		return observed, err
	}
	var err error
	if observed.classes, err = c.observeClasses(ctx); err != nil || observed.classes.notServed {
		return observed, err
	}
	if observed.claim.Spec.VolumeName == "" {
		return observed, nil
	}
	api, err := c.connect()
	if err != nil {
		return observed, err
	}
	volume, err := api.core.CoreV1().PersistentVolumes().Get(ctx, observed.claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return observed, nil
	case err != nil:
		return observed, fmt.Errorf("reading PersistentVolume %s: %w", observed.claim.Spec.VolumeName, err)
	}
	observed.volume = volume
	return observed, nil
}

func fromUnstructured(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// decideCapture decides whether the data of a claim is captured. If not, it returns why, in a
// sentence that does not name the claim and says what to do.
func decideCapture(o observedClaim) (plan capturePlan, notCaptured string) {
	if o.classes.notServed {
		return plan, errNotServed.Error() + ": " + installSnapshotter + ", or remove the Plugin of grapnel.dev/csi"
	}
	if owner := metav1.GetControllerOfNoCopy(o.claim); owner != nil && owner.Kind == "Pod" {
		return plan, "the claim belongs to an ephemeral volume, whose data ends with its pod: " +
			"use a claim of its own for data that must be kept, or exclude the claim from the backup"
	}
	switch {
	case o.claim.Spec.VolumeName == "" || o.claim.Status.Phase == corev1.ClaimPending:
		return plan, "the claim is not bound to a volume, so there is no data yet: " +
			"back up again when a pod uses it, or exclude it from the backup"
	case o.volume == nil || o.claim.Status.Phase == corev1.ClaimLost:
		return plan, "the volume of the claim does not exist anymore: restore the claim from an earlier backup, or exclude it from the backup"
	case o.volume.Spec.CSI == nil:
		return plan, fmt.Sprintf("the volume is no CSI volume (%s), and only CSI drivers take snapshots: "+
			"protect it by other means, or exclude the claim from the backup", volumeType(&o.volume.Spec.PersistentVolumeSource))
	}
	csi := o.volume.Spec.CSI
	class, why := chooseClass("VolumeSnapshotClass", parameterClass, o.classes.classes, csi.Driver, o.parameters)
	return capturePlan{driver: csi.Driver, volumeHandle: csi.VolumeHandle, class: class}, why
}

// volumeType returns the name of the field that a volume has set: its type.
func volumeType(source *corev1.PersistentVolumeSource) string {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(source)
	if err != nil || len(fields) != 1 {
		return "unknown type"
	}
	for name := range fields {
		return name
	}
	return ""
}
