// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Selection is a compiled Spec. It does not change, so all of its methods may
// be called concurrently.
type Selection struct {
	namespaces        namespaceFilter
	resources         resourceFilter
	selectors         []labels.Selector
	ordered           map[schema.GroupResource][]types.NamespacedName
	orderedByPlural   map[string][]types.NamespacedName
	warnings          []string
	missingNamespaces []string
	fromBackup        bool
}

// Compile combines a Spec with the available resources and namespaces. Resolver has the
// resource types. Namespaces are the names of the namespaces that exist when the backup
// starts, or that the backup has; namespace patterns are expanded against them. If the Spec
// does not pass Validate, the error joins all errors of Validate.
func Compile(spec Spec, resolver Resolver, namespaces []string) (*Selection, error) {
	if errs := Validate(spec); len(errs) > 0 {
		return nil, fmt.Errorf("validating selection: %w", errors.Join(errs...))
	}
	s := &Selection{fromBackup: spec.FromBackup}
	if err := s.compileNamespaces(spec, namespaces); err != nil {
		return nil, err
	}
	if err := s.compileResources(spec, resolver); err != nil {
		return nil, err
	}
	if err := s.compileLabels(spec); err != nil {
		return nil, err
	}
	if err := s.compileOrderedResources(spec.OrderedResources, resolver); err != nil {
		return nil, err
	}
	s.warnAboutOptedOut(spec)
	return s, nil
}

// UnmatchedWarnings returns a warning for every entry of the Spec's include lists that
// selects nothing: a resource the cluster does not have, a namespace or resource that is
// also excluded, a pattern without a match. The order is that of the Spec.
func (s *Selection) UnmatchedWarnings() []string {
	return append([]string(nil), s.warnings...)
}

// MissingNamespaces returns the namespaces that the Spec includes by name and that the
// cluster does not have, each once and in the order of the Spec. Those that a backup does
// not have are in UnmatchedWarnings.
func (s *Selection) MissingNamespaces() []string { return slices.Clone(s.missingNamespaces) }

// clusterOrBackupText returns the first text, or the second one if objects are selected
// from a backup.
func (s *Selection) clusterOrBackupText(cluster, backup string) string {
	if s.fromBackup {
		return backup
	}
	return cluster
}

func (s *Selection) addWarning(field string, format string, args ...any) {
	s.warnings = append(s.warnings, field+": "+fmt.Sprintf(format, args...))
}

// sortedKeys returns the keys of a set in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
