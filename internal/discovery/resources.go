// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Resource is one version of a resource type that can be archived.
type Resource struct {
	// GVR names the group, version and plural.
	GVR schema.GroupVersionResource
	// Kind is the kind of its objects.
	Kind string
	// Namespaced is false for cluster-scoped resources.
	Namespaced bool
	// Preferred marks the one version per resource that a backup without
	// EnableAPIGroupVersions contains: the preferred version of the group or, if that lacks
	// the resource, the first that has it.
	Preferred bool
}

// GroupResource returns the group and plural.
func (r Resource) GroupResource() schema.GroupResource { return r.GVR.GroupResource() }

// Resources is a snapshot of what a cluster serves. It does not change, so it may be used
// concurrently; callers do not modify its fields. It implements selection.Resolver.
type Resources struct {
	// Preferred are the resources that can be archived, in the preferred version, in the
	// order of archiving: groups in the server's order with "extensions" last; in the core
	// group pods, then persistentvolumeclaims, then persistentvolumes; otherwise by name.
	// Records of backup runs (selection.IsNeverArchived) are not included.
	Preferred []Resource
	// Versions are all served versions of these resources, in the server's
	// order of preference.
	Versions map[schema.GroupResource][]Resource
	// Failed are the group versions that the server could not describe, with the reason.
	// Their resources are missing from the other fields.
	Failed map[schema.GroupVersion]error

	preferred map[schema.GroupResource]Resource
	scopes    map[schema.GroupResource]bool
	resolver  *nameResolver
}

var _ selection.Resolver = (*Resources)(nil)

func newResources(s *serverResources) *Resources {
	r := &Resources{
		Versions:  map[schema.GroupResource][]Resource{},
		Failed:    s.failed,
		preferred: map[schema.GroupResource]Resource{},
		scopes:    map[schema.GroupResource]bool{},
	}
	all := map[schema.GroupResource][]servedVersion{}
	var order []schema.GroupResource
	for _, group := range s.groups {
		order = append(order, collectGroup(group, s.resources, all)...)
	}
	sortForArchive(order)
	for _, gr := range order {
		r.addVersions(gr, all[gr])
	}
	r.resolver = newNameResolver(s, r.scopes)
	return r
}

type servedVersion struct {
	gvr       schema.GroupVersionResource
	resource  metav1.APIResource
	preferred bool
}

// collectGroup adds the resources of a group to all and returns them in the
// order of their preferred versions, which is Velero's.
func collectGroup(
	group metav1.APIGroup,
	resources map[schema.GroupVersion]*metav1.APIResourceList,
	all map[schema.GroupResource][]servedVersion,
) []schema.GroupResource {
	chosen := map[schema.GroupResource]string{}
	for _, version := range group.Versions {
		gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
		list := resources[gv]
		if list == nil {
			continue
		}
		for _, resource := range list.APIResources {
			if isSubresource(resource) {
				continue
			}
			gvr := gv.WithResource(resource.Name)
			gr := gvr.GroupResource()
			all[gr] = append(all[gr], servedVersion{gvr: gvr, resource: resource})
			if _, ok := chosen[gr]; !ok || version.Version == group.PreferredVersion.Version {
				chosen[gr] = version.Version
			}
		}
	}
	var order []schema.GroupResource
	for _, version := range group.Versions {
		var names []string
		for gr, v := range chosen {
			if v == version.Version {
				names = append(names, gr.Resource)
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			order = append(order, schema.GroupResource{Group: group.Name, Resource: name})
		}
	}
	for gr, v := range chosen {
		for i := range all[gr] {
			all[gr][i].preferred = all[gr][i].gvr.Version == v
		}
	}
	return order
}

// addVersions records a resource if its preferred version can be archived. Like Velero, it
// checks only the preferred version.
func (r *Resources) addVersions(gr schema.GroupResource, versions []servedVersion) {
	at := slices.IndexFunc(versions, func(v servedVersion) bool { return v.preferred })
	if at < 0 || !canArchive(versions[at].resource) {
		return
	}
	r.scopes[gr] = versions[at].resource.Namespaced
	if selection.IsNeverArchived(gr) {
		return
	}
	for _, v := range versions {
		if !canArchive(v.resource) {
			continue
		}
		resource := Resource{
			GVR:        v.gvr,
			Kind:       v.resource.Kind,
			Namespaced: v.resource.Namespaced,
			Preferred:  v.preferred,
		}
		r.Versions[gr] = append(r.Versions[gr], resource)
		if v.preferred {
			r.Preferred = append(r.Preferred, resource)
			r.preferred[gr] = resource
		}
	}
}

// sortForArchive moves the group extensions to the end, so that a resource that another
// group also serves is archived from that group. In the core group it moves what a volume
// snapshot needs to the front: pods (whose hooks run first), claims, volumes.
func sortForArchive(order []schema.GroupResource) {
	slices.SortStableFunc(order, func(a, b schema.GroupResource) int {
		if c := cmp.Compare(apiGroupRank(a.Group), apiGroupRank(b.Group)); c != 0 {
			return c
		}
		if a.Group != "" || b.Group != "" {
			return 0
		}
		return cmp.Compare(coreResourceRank(a.Resource), coreResourceRank(b.Resource))
	})
}

func apiGroupRank(group string) int {
	switch group {
	case "":
		return 0 // the server lists the core group first
	case "extensions":
		return 2
	default:
		return 1
	}
}

func coreResourceRank(resource string) int {
	switch resource {
	case "pods":
		return 0
	case "persistentvolumeclaims":
		return 1
	case "persistentvolumes":
		return 2
	default:
		return 3
	}
}

// PreferredVersion returns the preferred version of a resource, or false if the cluster
// does not serve it or it cannot be archived.
func (r *Resources) PreferredVersion(gr schema.GroupResource) (Resource, bool) {
	resource, ok := r.preferred[gr]
	return resource, ok
}

// Scopes returns all resources to which a name can resolve and whether they are namespaced:
// those of Preferred, and the records of backup runs. The caller must not change the map.
func (r *Resources) Scopes() map[schema.GroupResource]bool { return r.scopes }

// FilterPreferred returns the resources for which include is true, in the order of
// archiving. If two groups serve a resource that is stored once, it returns only the first
// included one.
func (r *Resources) FilterPreferred(include func(gr schema.GroupResource, namespaced bool) bool) []Resource {
	seen := map[string]bool{}
	var result []Resource
	for _, resource := range r.Preferred {
		gr := resource.GroupResource()
		if !include(gr, resource.Namespaced) {
			continue
		}
		if stored, twice := cohabitatingResourceKey(gr); twice {
			if seen[stored] {
				continue
			}
			seen[stored] = true
		}
		result = append(result, resource)
	}
	return result
}

// cohabitatingResourceKey reports whether another group also serves the objects of a
// resource, and returns the common key of the two. The list is from Velero's backup
// package.
func cohabitatingResourceKey(gr schema.GroupResource) (key string, twice bool) {
	var other string
	switch gr.Resource {
	case "deployments", "daemonsets", "replicasets":
		other = "apps"
	case "networkpolicies":
		other = "networking.k8s.io"
	case "events":
		return "events", gr.Group == "" || gr.Group == "events.k8s.io"
	default:
		return "", false
	}
	return gr.Resource, gr.Group == "extensions" || gr.Group == other
}
