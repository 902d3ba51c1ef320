// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// nameResolver resolves user input to resources, by the same rules as kubectl.
type nameResolver struct {
	mapper     meta.RESTMapper
	shortNames []shortName // in the server's order of priority
}

type shortName struct {
	short string
	long  schema.GroupResource
}

func newNameResolver(s *serverResources, known map[schema.GroupResource]bool) *nameResolver {
	n := &nameResolver{}
	var groups []*restmapper.APIGroupResources
	for _, group := range s.groups {
		versions := map[string][]metav1.APIResource{}
		for _, version := range group.Versions {
			list := s.resources[schema.GroupVersion{Group: group.Name, Version: version.Version}]
			if list == nil {
				continue
			}
			versions[version.Version] = list.APIResources
			n.addShortNames(group.Name, list.APIResources, known)
		}
		groups = append(groups, &restmapper.APIGroupResources{Group: group, VersionedResources: versions})
	}
	n.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return n
}

func (n *nameResolver) addShortNames(group string, resources []metav1.APIResource, known map[schema.GroupResource]bool) {
	for _, resource := range resources {
		long := schema.GroupResource{Group: group, Resource: resource.Name}
		if _, ok := known[long]; !ok || isSubresource(resource) {
			continue
		}
		for _, short := range resource.ShortNames {
			n.shortNames = append(n.shortNames, shortName{short: short, long: long})
		}
	}
}

// expandShortName replaces a short name by its plural. The group may be missing or a prefix
// of the real one ("vs.snapshot"); an exact group takes precedence.
func (n *nameResolver) expandShortName(gr schema.GroupResource) schema.GroupResource {
	for _, s := range n.shortNames {
		if s.short == gr.Resource && (gr.Group == "" || gr.Group == s.long.Group) {
			return schema.GroupResource{Group: gr.Group, Resource: s.long.Resource}
		}
	}
	for _, s := range n.shortNames {
		if gr.Group != "" && s.short == gr.Resource && strings.HasPrefix(s.long.Group, gr.Group) {
			return schema.GroupResource{Group: gr.Group, Resource: s.long.Resource}
		}
	}
	return gr
}

// Resolve finds the resource for a plural, singular or kind in any case, or a short name in
// lower case. The group may be given in full, as a prefix, or not at all, which means the
// group that the server ranks first. It reports false for a resource that the cluster does
// not serve, or that cannot be archived because a verb is missing.
func (r *Resources) Resolve(name string) (schema.GroupResource, bool) {
	partial := r.resolver.expandShortName(schema.ParseGroupResource(name))
	gvr, err := r.resolver.mapper.ResourceFor(partial.WithVersion(""))
	if err != nil {
		var ambiguous *meta.AmbiguousResourceError
		if !errors.As(err, &ambiguous) || len(ambiguous.MatchingResources) == 0 {
			return schema.GroupResource{}, false
		}
		gvr = ambiguous.MatchingResources[0]
	}
	gr := gvr.GroupResource()
	_, ok := r.scopes[gr]
	return gr, ok
}
