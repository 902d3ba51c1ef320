// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// ToSelectionSpec converts the part of the spec of a Backup that selects objects.
func ToSelectionSpec(spec *v1alpha1.BackupSpec) selection.Spec {
	return selection.Spec{
		IncludedNamespaces:               ToStrings(spec.IncludedNamespaces),
		ExcludedNamespaces:               ToStrings(spec.ExcludedNamespaces),
		IncludedResources:                ToStrings(spec.IncludedResources),
		ExcludedResources:                ToStrings(spec.ExcludedResources),
		IncludeClusterResources:          spec.IncludeClusterResources,
		IncludedClusterScopedResources:   ToStrings(spec.IncludedClusterScopedResources),
		ExcludedClusterScopedResources:   ToStrings(spec.ExcludedClusterScopedResources),
		IncludedNamespaceScopedResources: ToStrings(spec.IncludedNamespaceScopedResources),
		ExcludedNamespaceScopedResources: ToStrings(spec.ExcludedNamespaceScopedResources),
		LabelSelector:                    spec.LabelSelector,
		OrLabelSelectors:                 spec.OrLabelSelectors,
		OrderedResources:                 ToStringMap(spec.OrderedResources),
	}
}

// ValidateBackup returns everything that is wrong with the spec and the name of a Backup on their own.
func ValidateBackup(b *v1alpha1.Backup) []string {
	var errs []string
	if err := storage.ValidateName(b.Name); err != nil {
		errs = append(errs, "metadata.name: "+err.Error())
	}
	for _, err := range selection.Validate(ToSelectionSpec(&b.Spec)) {
		errs = append(errs, err.Error())
	}
	if b.Spec.Metadata != nil {
		path := field.NewPath("spec", "metadata", "labels")
		for _, err := range metav1validation.ValidateLabels(ToStringMap(b.Spec.Metadata.Labels), path) {
			errs = append(errs, err.Error())
		}
	}
	return errs
}
