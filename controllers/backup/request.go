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
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// toSelectionSpec converts the part of the spec that selects objects.
func toSelectionSpec(spec *v1alpha1.BackupSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:               run.ToStrings(spec.IncludedNamespaces),
		ExcludedNamespaces:               run.ToStrings(spec.ExcludedNamespaces),
		IncludedResources:                run.ToStrings(spec.IncludedResources),
		ExcludedResources:                run.ToStrings(spec.ExcludedResources),
		IncludeClusterResources:          spec.IncludeClusterResources,
		IncludedClusterScopedResources:   run.ToStrings(spec.IncludedClusterScopedResources),
		ExcludedClusterScopedResources:   run.ToStrings(spec.ExcludedClusterScopedResources),
		IncludedNamespaceScopedResources: run.ToStrings(spec.IncludedNamespaceScopedResources),
		ExcludedNamespaceScopedResources: run.ToStrings(spec.ExcludedNamespaceScopedResources),
		LabelSelector:                    spec.LabelSelector,
		OrLabelSelectors:                 spec.OrLabelSelectors,
		OrderedResources:                 run.ToStringMap(spec.OrderedResources),
	}
}

// validateSpec returns everything that is wrong with the spec on its own.
func validateSpec(b *v1alpha1.Backup) []string {
	var errs []string
	if err := backupstore.ValidateName(b.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range selection.Validate(toSelectionSpec(&b.Spec)) {
		errs = append(errs, err.Error())
	}
	if b.Spec.Metadata != nil {
		path := field.NewPath("spec", "metadata", "labels")
		for _, err := range metav1validation.ValidateLabels(run.ToStringMap(b.Spec.Metadata.Labels), path) {
			errs = append(errs, err.Error())
		}
	}
	return errs
}

// newRunnerRequest returns the request to the runner for a Backup.
func (r *Reconciler) newRunnerRequest(s *scope) (job.Request, error) {
	b := s.Object.DeepCopy()
	b.ManagedFields = nil
	delete(b.Annotations, corev1.LastAppliedConfigAnnotation)
	b.APIVersion, b.Kind = v1alpha1.GroupVersion.String(), "Backup"
	object, err := json.Marshal(b)
	if err != nil {
		return job.Request{}, fmt.Errorf("encoding the Backup: %w", err)
	}
	// Velero sets the default location as well, and its plugins read it here.
	b.Spec.StorageLocation = b.Status.StorageLocation
	spec, err := json.Marshal(b.Spec)
	if err != nil {
		return job.Request{}, fmt.Errorf("encoding the spec: %w", err)
	}
	request := job.Request{
		Name: b.Name, Namespace: b.Namespace, UID: string(b.UID),
		Labels: b.StoredLabels(), Annotations: b.Annotations,
		Spec: spec, Object: object, StorageLocation: b.Status.StorageLocation,
		Selection: toSelectionSpec(&b.Spec), AllVersions: r.AllVersions,
		Attempt: b.Status.Attempts, OnOperationStarted: r.newOperationRecorder(s),
		OperationTimeout: r.Operations.Timeout,
		ItemActions:      run.NewItemActionSpecs(b, r.Actions.BackupItemAction),
		Outputs:          run.OutputsByAction(s.Pre), Warnings: append(run.IgnoredFailureWarnings(s.Pre), b.Status.PlanWarnings...),
	}
	if b.Status.StartTimestamp != nil {
		request.Start = b.Status.StartTimestamp.Time
	}
	return request, nil
}
