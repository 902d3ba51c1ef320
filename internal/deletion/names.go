// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// resourceNames resolves the names of resources that actions use: to the resources that the
// cluster serves and, for others, to those of the archive. Only plurals of the latter are known.
type resourceNames struct {
	served   itemaction.ResourceResolver // nil if nothing is known about the cluster
	archived []schema.GroupResource
}

var _ itemaction.ResourceResolver = resourceNames{}

func newResourceNames(served itemaction.ResourceResolver, archived map[schema.GroupResource]struct{}) resourceNames {
	return resourceNames{served: served, archived: slices.SortedFunc(maps.Keys(archived), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	})}
}

// Resolve implements itemaction.ResourceResolver.
func (n resourceNames) Resolve(name string) (schema.GroupResource, bool) {
	for _, gr := range n.archived {
		if gr.String() == name {
			return gr, true // not another resource whose name has it as a prefix
		}
	}
	if n.served != nil {
		if gr, ok := n.served.Resolve(name); ok {
			return gr, true
		}
	}
	wanted := schema.ParseGroupResource(strings.ToLower(name))
	for _, gr := range n.archived {
		if gr.Resource == wanted.Resource && strings.HasPrefix(gr.Group, wanted.Group) {
			return gr, true
		}
	}
	return schema.GroupResource{}, false
}
