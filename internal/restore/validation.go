// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Validate returns all errors of a Request that do not depend on the archive and the
// cluster, as *selection.FieldError for a field of the spec.
func Validate(req Request) []error {
	errs := selection.Validate(req.Selection)
	switch req.Policy {
	case "", ExistingNone, ExistingUpdate, ExistingRecreate:
	default:
		errs = append(errs, &selection.FieldError{
			Field: "spec.existingResourcePolicy", Problem: fmt.Sprintf("%q is not one of none, update, recreate", req.Policy),
		})
	}
	return slices.Concat(errs, validateIncludedResources(req), validateNamespaceMapping(req))
}

// validateIncludedResources rejects names of resources that are never restored, like Velero.
// Snapshots are accepted: Velero restores them, and actions may read them.
func validateIncludedResources(req Request) []error {
	var errs []error
	for i, name := range req.Selection.IncludedResources {
		resource := schema.ParseGroupResource(strings.ToLower(name))
		reason := action.NeverRestoredReason(resource)
		if reason == "" || strings.HasSuffix(resource.Group, "snapshot.storage.k8s.io") {
			continue
		}
		errs = append(errs, &selection.FieldError{
			Field: fmt.Sprintf("spec.includedResources[%d]", i), Problem: fmt.Sprintf("%q is never restored: %s; remove it", name, reason),
		})
	}
	return errs
}

func validateNamespaceMapping(req Request) []error {
	var errs []error
	excluded, err := selection.Compile(selection.Spec{ExcludedNamespaces: req.Selection.ExcludedNamespaces}, emptyResolver{}, nil)
	if err != nil {
		return nil // Validate reports the errors of the list
	}
	for _, original := range slices.Sorted(maps.Keys(req.NamespaceMapping)) {
		target := req.NamespaceMapping[original]
		field := fmt.Sprintf("spec.namespaceMapping[%s]", original)
		if problems := validation.IsDNS1123Label(target); len(problems) > 0 {
			errs = append(errs, &selection.FieldError{
				Field: field, Problem: fmt.Sprintf("%q is not a namespace name: %s", target, strings.Join(problems, ", ")),
			})
			continue
		}
		if target != original && !excluded.IncludesNamespace(target) {
			errs = append(errs, &selection.FieldError{
				Field: field, Problem: fmt.Sprintf("it is mapped onto %q, which spec.excludedNamespaces excludes", target),
			})
		}
	}
	return errs
}

// emptyResolver is a selection.Resolver for a selection of only namespaces.
type emptyResolver struct{}

func (emptyResolver) Resolve(string) (schema.GroupResource, bool) {
	return schema.GroupResource{}, false
}
func (emptyResolver) Scopes() map[schema.GroupResource]bool { return nil }
