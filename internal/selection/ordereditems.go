// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (s *Selection) compileOrderedResources(ordered map[string]string, resolver Resolver) error {
	s.ordered = map[schema.GroupResource][]types.NamespacedName{}
	s.orderedByPlural = map[string][]types.NamespacedName{}
	from := map[schema.GroupResource]string{}
	for _, key := range sortedKeys(ordered) {
		items, err := parseOrderedItems(ordered[key])
		if err != nil {
			return fmt.Errorf("compiling spec.orderedResources[%s]: %w", key, err)
		}
		// Velero compares the key with the plural name and ignores the group.
		s.orderedByPlural[key] = items
		gr, ok := resolver.Resolve(key)
		if !ok {
			s.addWarning("spec.orderedResources["+key+"]", "the cluster does not serve a resource %q that can be archived", key)
			continue
		}
		if other, taken := from[gr]; taken {
			s.addWarning("spec.orderedResources["+key+"]", "%s is ordered by spec.orderedResources[%s] already", gr, other)
			continue
		}
		from[gr] = key
		s.ordered[gr] = items
	}
	return nil
}

// parseOrderedItems parses "ns1/a, ns2/b" or "a,b". For a duplicate name, the first
// position counts.
func parseOrderedItems(list string) ([]types.NamespacedName, error) {
	var items []types.NamespacedName
	seen := map[types.NamespacedName]bool{}
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		item, err := parseOrderedItem(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		if !seen[item] {
			seen[item] = true
			items = append(items, item)
		}
	}
	return items, nil
}

// OrderedItems returns the items of a resource that are archived before its other items, in
// that order; Namespace is empty for cluster-scoped ones. It includes items that do not
// exist or are not selected.
func (s *Selection) OrderedItems(gr schema.GroupResource) []types.NamespacedName {
	if items, ok := s.ordered[gr]; ok {
		return items
	}
	return s.orderedByPlural[gr.Resource]
}
