// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// newRunnerRequest returns the request to the runner for a Backup.
func (r *Reconciler) newRunnerRequest(s *scope) (backup.Request, error) {
	b := s.Object.DeepCopy()
	b.ManagedFields = nil
	delete(b.Annotations, corev1.LastAppliedConfigAnnotation)
	b.APIVersion, b.Kind = v1alpha1.GroupVersion.String(), "Backup"
	object, err := json.Marshal(b)
	if err != nil {
		return backup.Request{}, fmt.Errorf("encoding the Backup: %w", err)
	}
	// Velero sets the default location as well, and its plugins read it here.
	b.Spec.StorageLocation = b.Status.StorageLocation
	spec, err := json.Marshal(b.Spec)
	if err != nil {
		return backup.Request{}, fmt.Errorf("encoding the spec: %w", err)
	}
	request := backup.Request{
		Name: b.Name, Namespace: b.Namespace, UID: string(b.UID),
		Labels: b.StoredLabels(), Annotations: b.Annotations,
		Spec: spec, Object: object, StorageLocation: b.Status.StorageLocation,
		Selection: lifecycle.ToSelectionSpec(&b.Spec), AllVersions: r.AllVersions,
		Attempt: b.Status.Attempts, OnOperationStarted: r.driver.NewOperationRecorder(s),
		OperationTimeout: r.Operations.Timeout,
		ItemActions:      lifecycle.NewItemActionSpecs(b, r.Actions.BackupItemAction),
		Outputs:          lifecycle.OutputsByAction(s.Pre), Warnings: append(lifecycle.IgnoredFailureWarnings(s.Pre), b.Status.PlanWarnings...),
	}
	if b.Spec.Volumes != nil {
		request.RequireCaptured = b.Spec.Volumes.RequireCaptured
	}
	if b.Status.StartTimestamp != nil {
		request.Start = b.Status.StartTimestamp.Time
	}
	return request, nil
}
