// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// toSelectionSpec converts the part of the spec that selects objects.
func toSelectionSpec(spec *v1alpha1.BackupSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:               lifecycle.ToStrings(spec.IncludedNamespaces),
		ExcludedNamespaces:               lifecycle.ToStrings(spec.ExcludedNamespaces),
		IncludedResources:                lifecycle.ToStrings(spec.IncludedResources),
		ExcludedResources:                lifecycle.ToStrings(spec.ExcludedResources),
		IncludeClusterResources:          spec.IncludeClusterResources,
		IncludedClusterScopedResources:   lifecycle.ToStrings(spec.IncludedClusterScopedResources),
		ExcludedClusterScopedResources:   lifecycle.ToStrings(spec.ExcludedClusterScopedResources),
		IncludedNamespaceScopedResources: lifecycle.ToStrings(spec.IncludedNamespaceScopedResources),
		ExcludedNamespaceScopedResources: lifecycle.ToStrings(spec.ExcludedNamespaceScopedResources),
		LabelSelector:                    spec.LabelSelector,
		OrLabelSelectors:                 spec.OrLabelSelectors,
		OrderedResources:                 lifecycle.ToStringMap(spec.OrderedResources),
	}
}

// validateSpec returns everything that is wrong with the spec on its own.
func validateSpec(b *v1alpha1.Backup) []string {
	var errs []string
	if err := storage.ValidateName(b.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range selection.Validate(toSelectionSpec(&b.Spec)) {
		errs = append(errs, err.Error())
	}
	if b.Spec.Metadata != nil {
		path := field.NewPath("spec", "metadata", "labels")
		for _, err := range metav1validation.ValidateLabels(lifecycle.ToStringMap(b.Spec.Metadata.Labels), path) {
			errs = append(errs, err.Error())
		}
	}
	return errs
}

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
		Selection: toSelectionSpec(&b.Spec), AllVersions: r.AllVersions,
		Attempt: b.Status.Attempts, OnOperationStarted: r.driver.NewOperationRecorder(s),
		OperationTimeout: r.Operations.Timeout,
		ItemActions:      lifecycle.NewItemActionSpecs(b, r.Actions.BackupItemAction),
		Outputs:          lifecycle.OutputsByAction(s.Pre), Warnings: append(lifecycle.IgnoredFailureWarnings(s.Pre), b.Status.PlanWarnings...),
	}
	if b.Status.StartTimestamp != nil {
		request.Start = b.Status.StartTimestamp.Time
	}
	return request, nil
}
