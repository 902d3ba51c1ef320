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

// selectionOf translates the part of the spec that selects objects.
func selectionOf(spec *v1alpha1.BackupSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:               run.Plain(spec.IncludedNamespaces),
		ExcludedNamespaces:               run.Plain(spec.ExcludedNamespaces),
		IncludedResources:                run.Plain(spec.IncludedResources),
		ExcludedResources:                run.Plain(spec.ExcludedResources),
		IncludeClusterResources:          spec.IncludeClusterResources,
		IncludedClusterScopedResources:   run.Plain(spec.IncludedClusterScopedResources),
		ExcludedClusterScopedResources:   run.Plain(spec.ExcludedClusterScopedResources),
		IncludedNamespaceScopedResources: run.Plain(spec.IncludedNamespaceScopedResources),
		ExcludedNamespaceScopedResources: run.Plain(spec.ExcludedNamespaceScopedResources),
		LabelSelector:                    spec.LabelSelector,
		OrLabelSelectors:                 spec.OrLabelSelectors,
		OrderedResources:                 run.PlainMap(spec.OrderedResources),
	}
}

// validate returns everything that is wrong with the spec by itself.
func validate(b *v1alpha1.Backup) []string {
	var errs []string
	if err := backupstore.ValidateName(b.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range selection.Validate(selectionOf(&b.Spec)) {
		errs = append(errs, err.Error())
	}
	if b.Spec.Metadata != nil {
		path := field.NewPath("spec", "metadata", "labels")
		for _, err := range metav1validation.ValidateLabels(run.PlainMap(b.Spec.Metadata.Labels), path) {
			errs = append(errs, err.Error())
		}
	}
	return errs
}

// requestOf returns what the job is told about a Backup.
func (r *Reconciler) requestOf(s *scope) (job.Request, error) {
	b := s.Object.DeepCopy()
	b.ManagedFields = nil
	delete(b.Annotations, corev1.LastAppliedConfigAnnotation)
	b.APIVersion, b.Kind = v1alpha1.GroupVersion.String(), "Backup"
	object, err := json.Marshal(b)
	if err != nil {
		return job.Request{}, fmt.Errorf("encoding the Backup: %w", err)
	}
	// Velero names the default location, too, and its plugins look there.
	b.Spec.StorageLocation = b.Status.StorageLocation
	spec, err := json.Marshal(b.Spec)
	if err != nil {
		return job.Request{}, fmt.Errorf("encoding the spec: %w", err)
	}
	request := job.Request{
		Name: b.Name, Namespace: b.Namespace, UID: string(b.UID),
		Labels: b.StoredLabels(), Annotations: b.Annotations,
		Spec: spec, Object: object, StorageLocation: b.Status.StorageLocation,
		Selection: selectionOf(&b.Spec), AllVersions: r.AllVersions,
		Attempt: b.Status.Attempts, Started: r.started(s),
		OperationTimeout: r.Operations.Timeout,
		ItemActions:      run.ItemSpecs(b, r.Actions.BackupItemAction),
		Outputs:          run.Outputs(s.Pre), Warnings: append(run.Ignored(s.Pre), b.Status.PlanWarnings...),
	}
	if b.Status.StartTimestamp != nil {
		request.Start = b.Status.StartTimestamp.Time
	}
	return request, nil
}
