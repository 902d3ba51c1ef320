// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// nameResolver resolves user input to resources of the cluster and, if it does not serve
// them, of the archive. For the latter only plurals are known.
type nameResolver struct {
	served       *discovery.Resources
	archivedOnly []schema.GroupResource
	scopes       map[schema.GroupResource]bool
}

var _ selection.Resolver = (*nameResolver)(nil)

// newNameResolver takes the resources of the archive and whether they are namespaced.
func newNameResolver(served *discovery.Resources, archived map[schema.GroupResource]bool) *nameResolver {
	n := &nameResolver{served: served, scopes: maps.Clone(served.Scopes())}
	for gr, namespaced := range archived {
		if _, known := n.scopes[gr]; !known {
			n.scopes[gr] = namespaced
			n.archivedOnly = append(n.archivedOnly, gr)
		}
	}
	slices.SortFunc(n.archivedOnly, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return n
}

// Resolve implements selection.Resolver.
func (n *nameResolver) Resolve(name string) (schema.GroupResource, bool) {
	for _, gr := range n.archivedOnly {
		if gr.String() == name {
			return gr, true // not another resource of which its name is a prefix
		}
	}
	if gr, ok := n.served.Resolve(name); ok {
		return gr, true
	}
	wanted := schema.ParseGroupResource(strings.ToLower(name))
	for _, gr := range n.archivedOnly {
		if gr.Resource == wanted.Resource && strings.HasPrefix(gr.Group, wanted.Group) {
			return gr, true
		}
	}
	return schema.GroupResource{}, false
}

// Scopes implements selection.Resolver.
func (n *nameResolver) Scopes() map[schema.GroupResource]bool { return n.scopes }

// matchesStatusFilter reports whether a filter selects a resource.
func (n *nameResolver) matchesStatusFilter(filter *StatusFilter, gr schema.GroupResource) bool {
	if filter == nil || n.containsResource(filter.ExcludedResources, gr) {
		return false
	}
	return len(filter.IncludedResources) == 0 || n.containsResource(filter.IncludedResources, gr)
}

func (n *nameResolver) containsResource(entries []string, gr schema.GroupResource) bool {
	return slices.ContainsFunc(entries, func(entry string) bool {
		resolved, ok := n.Resolve(entry)
		return entry == "*" || entry == gr.String() || ok && resolved == gr
	})
}
