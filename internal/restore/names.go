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

// names resolves what people write to resources of the cluster and, where it
// does not serve them, of the archive. Only plurals are known of those.
type names struct {
	served   *discovery.Resources
	archived []schema.GroupResource
	scopes   map[schema.GroupResource]bool
}

var _ selection.Resolver = (*names)(nil)

// newNames takes the resources of the archive and whether they are namespaced.
func newNames(served *discovery.Resources, archived map[schema.GroupResource]bool) *names {
	n := &names{served: served, scopes: maps.Clone(served.Scopes())}
	for gr, namespaced := range archived {
		if _, known := n.scopes[gr]; !known {
			n.scopes[gr] = namespaced
			n.archived = append(n.archived, gr)
		}
	}
	slices.SortFunc(n.archived, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return n
}

// Resolve implements selection.Resolver.
func (n *names) Resolve(name string) (schema.GroupResource, bool) {
	for _, gr := range n.archived {
		if gr.String() == name {
			return gr, true // not another resource with the beginning of its name
		}
	}
	if gr, ok := n.served.Resolve(name); ok {
		return gr, true
	}
	wanted := schema.ParseGroupResource(strings.ToLower(name))
	for _, gr := range n.archived {
		if gr.Resource == wanted.Resource && strings.HasPrefix(gr.Group, wanted.Group) {
			return gr, true
		}
	}
	return schema.GroupResource{}, false
}

// Scopes implements selection.Resolver.
func (n *names) Scopes() map[schema.GroupResource]bool { return n.scopes }

// includes reports whether a resource is one of those of a filter.
func (n *names) includes(filter *StatusFilter, gr schema.GroupResource) bool {
	if filter == nil || n.anyIs(filter.ExcludedResources, gr) {
		return false
	}
	return len(filter.IncludedResources) == 0 || n.anyIs(filter.IncludedResources, gr)
}

func (n *names) anyIs(entries []string, gr schema.GroupResource) bool {
	return slices.ContainsFunc(entries, func(entry string) bool {
		resolved, ok := n.Resolve(entry)
		return entry == "*" || entry == gr.String() || ok && resolved == gr
	})
}
