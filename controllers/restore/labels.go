// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// addBackupLabels adds the labels that item actions requested to the Backup that was restored,
// if it is in this cluster. Existing labels do not change. If the API server rejects the labels,
// an event reports it, and the Restore continues.
func (r *Reconciler) addBackupLabels(ctx context.Context, s *scope, labels map[string]string) error {
	o := s.Object
	if len(labels) == 0 || o.Spec.DryRun {
		return nil
	}
	var list v1alpha1.BackupList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("listing the Backups: %w", err)
	}
	for i := range list.Items {
		b := &list.Items[i]
		if b.StoredName() != o.Status.BackupName || b.Location() != o.Status.StorageLocation {
			continue
		}
		patched := b.DeepCopy()
		patched.Labels = maps.Clone(labels)
		maps.Copy(patched.Labels, b.Labels)
		if len(patched.Labels) == len(b.Labels) {
			continue
		}
		err := r.Client.Patch(ctx, patched, client.MergeFrom(b))
		switch {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			r.Recorder.Eventf(o, nil, corev1.EventTypeWarning, v1alpha1.ReasonLabelsRefused, "Label",
				"The labels requested by item actions could not be added to Backup %s: %s", b.Name, r.Redactor.String(err.Error()))
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("adding the labels of item actions to Backup %s: %w", b.Name, err)
		}
	}
	return nil
}
