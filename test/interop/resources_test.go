// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/glob"
	"github.com/vmware-tanzu/velero/pkg/kuberesource"
	"github.com/vmware-tanzu/velero/pkg/util/collections"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Velero's backup controller adds these to the exclude lists.
const (
	volumeSnapshots        = "volumesnapshots.snapshot.storage.k8s.io"
	volumeSnapshotContents = "volumesnapshotcontents.snapshot.storage.k8s.io"
)

func resourceEntry() *rapid.Generator[string] {
	return rapid.OneOf(
		resourceName(),
		resourceName(),
		rapid.SampledFrom([]string{
			"*", "*.apps", "*s", "p*", "{pods,secrets}", "*.k8s.io", "*roles*", "widgets.*", "[cp]*", "*.rbac*", "namespaces",
			"", "pods,secrets", "a b", "pods/log", "deployments.apps/v1", "[", "{", "[!p]*", "[z-a]",
		}),
	)
}

func resourceList() *rapid.Generator[[]string] {
	return rapid.OneOf(rapid.Just[[]string](nil), rapid.SliceOfN(resourceEntry(), 1, 3))
}

// TestValidate_Resources compares which of the older resource lists are
// refused.
func TestValidate_Resources(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		include, exclude := resourceList().Draw(rt, "include"), resourceList().Draw(rt, "exclude")
		compareValidation(rt, collections.ValidateIncludesExcludes(include, exclude),
			selection.Spec{IncludedResources: include, ExcludedResources: exclude}, include, exclude)
	})
}

// TestValidate_ScopedResources does the same for the scoped lists.
func TestValidate_ScopedResources(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		include, exclude := resourceList().Draw(rt, "include"), resourceList().Draw(rt, "exclude")
		velero := collections.ValidateScopedIncludesExcludes(include, exclude)
		compareValidation(rt, velero, selection.Spec{
			IncludedClusterScopedResources: include, ExcludedClusterScopedResources: exclude,
		}, include, exclude)
		compareValidation(rt, velero, selection.Spec{
			IncludedNamespaceScopedResources: include, ExcludedNamespaceScopedResources: exclude,
		}, include, exclude)
	})
}

func compareValidation(rt *rapid.T, velero []error, spec selection.Spec, include, exclude []string) {
	grapnel := selection.Validate(spec)
	switch {
	case len(velero) > 0 && len(grapnel) == 0:
		rt.Fatalf("only Velero refuses: %v", velero)
	case len(velero) == 0 && len(grapnel) > 0 && !allowedToRefuseResources(include, exclude):
		rt.Fatalf("only Grapnel refuses: %v", grapnel)
	}
}

// allowedToRefuseResources: Velero does not look at the entries at all. One
// that can never name a resource (empty, white space, "group/version",
// "pods/log", "pods,secrets") selects nothing there, or everything if it is
// empty; an unreadable pattern even switches off those after it.
func allowedToRefuseResources(include, exclude []string) bool {
	return slices.ContainsFunc(slices.Concat(include, exclude), func(entry string) bool {
		_, err := glob.Compile(entry)
		return err != nil || entry == "" || strings.ContainsAny(entry, " /") ||
			strings.Contains(entry, ",") && !strings.Contains(entry, "{")
	})
}

// filter is what both of Velero's resource filters have in common.
type filter interface {
	ShouldInclude(typeName string) bool
	ShouldExclude(typeName string) bool
}

// veleroInclusion combines the questions Velero's item collector and item
// backupper ask into one answer.
func veleroInclusion(f filter, gr schema.GroupResource, namespaced bool) selection.Inclusion {
	switch {
	case f.ShouldInclude(gr.String()):
		return selection.Included
	case namespaced:
		return selection.Excluded
	case gr == kuberesource.Namespaces || !f.ShouldExclude(gr.String()):
		return selection.RelatedOnly
	default:
		return selection.Excluded
	}
}

// compareResources compares the decision about every resource of the cluster.
func (c *clients) compareResources(rt *rapid.T, velero filter, grapnel *selection.Selection) {
	scopes := c.grapnel.Scopes()
	for _, gr := range slices.SortedFunc(maps.Keys(scopes), byName) {
		namespaced := scopes[gr]
		want := veleroInclusion(velero, gr, namespaced)
		if allowedToLeaveOut(gr) {
			want = selection.Excluded
		}
		if got := grapnel.ResourceInclusion(gr, namespaced); got != want {
			rt.Fatalf("%s: Velero %s, Grapnel %s", gr, want, got)
		}
	}
}

func byName(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

// allowedToLeaveOut: records of backup runs are never archived. Volume
// snapshots are left out by Velero as well, only not by the package compared
// with here but by its backup controller.
func allowedToLeaveOut(gr schema.GroupResource) bool {
	return selection.IsNeverArchived(gr) || gr.String() == volumeSnapshots || gr.String() == volumeSnapshotContents
}

// TestResourceInclusion_OldFilters compares includedResources, excludedResources and
// includeClusterResources, together with namespace filters.
func TestResourceInclusion_OldFilters(t *testing.T) {
	c := newClients(t)
	rapid.Check(t, func(rt *rapid.T) {
		f := validNamespaceFilter().Draw(rt, "namespaces")
		spec := selection.Spec{
			IncludedNamespaces: f.include, ExcludedNamespaces: f.exclude,
			IncludedResources:       resourceList().Draw(rt, "include"),
			ExcludedResources:       resourceList().Draw(rt, "exclude"),
			IncludeClusterResources: rapid.Ptr(rapid.Bool(), true).Draw(rt, "clusterResources"),
		}
		old := spec.IncludeClusterResources != nil || len(spec.IncludedResources)+len(spec.ExcludedResources) > 0
		if !old || len(selection.Validate(spec)) > 0 {
			rt.SkipNow()
		}
		nie := veleroNamespaces(rt, f.active, f.include, f.exclude)
		if allowedToBeSmaller(nie, f, false) {
			rt.SkipNow()
		}
		velero := collections.GetGlobalResourceIncludesExcludes(c.velero, c.log,
			spec.IncludedResources, spec.ExcludedResources, spec.IncludeClusterResources, *nie)
		grapnel, err := selection.Compile(spec, c.grapnel, f.active)
		if err != nil {
			rt.Fatalf("compiling: %v", err)
		}
		c.compareResources(rt, velero, grapnel)
	})
}

// TestResourceInclusion_ScopedFilters compares the four scoped lists, together with
// namespace filters. No filter at all is one of the cases.
func TestResourceInclusion_ScopedFilters(t *testing.T) {
	c := newClients(t)
	rapid.Check(t, func(rt *rapid.T) {
		f := validNamespaceFilter().Draw(rt, "namespaces")
		if rapid.Bool().Draw(rt, "allNamespaces") {
			f.include, f.exclude = nil, nil // often, because then every list counts
		}
		spec := selection.Spec{
			IncludedNamespaces: f.include, ExcludedNamespaces: f.exclude,
			IncludedNamespaceScopedResources: resourceList().Draw(rt, "includeNamespaced"),
			ExcludedNamespaceScopedResources: resourceList().Draw(rt, "excludeNamespaced"),
			IncludedClusterScopedResources:   resourceList().Draw(rt, "includeCluster"),
			ExcludedClusterScopedResources:   resourceList().Draw(rt, "excludeCluster"),
		}
		if len(selection.Validate(spec)) > 0 ||
			c.allowedToSelectNothing(spec.IncludedNamespaceScopedResources, true) ||
			c.allowedToSelectNothing(spec.IncludedClusterScopedResources, false) {
			rt.SkipNow()
		}
		nie := veleroNamespaces(rt, f.active, f.include, f.exclude)
		if allowedToBeSmaller(nie, f, false) {
			rt.SkipNow()
		}
		velero := collections.GetScopeResourceIncludesExcludes(c.velero, c.log,
			spec.IncludedNamespaceScopedResources, spec.ExcludedNamespaceScopedResources,
			spec.IncludedClusterScopedResources, spec.ExcludedClusterScopedResources, *nie)
		grapnel, err := selection.Compile(spec, c.grapnel, f.active)
		if err != nil {
			rt.Fatalf("compiling: %v", err)
		}
		c.compareResources(rt, velero, grapnel)
	})
}

// allowedToSelectNothing: Velero drops entries of the wrong scope from an
// include list, and if none is left the list means everything.
func (c *clients) allowedToSelectNothing(include []string, namespaced bool) bool {
	return len(include) > 0 && !slices.ContainsFunc(include, func(entry string) bool {
		_, resource, err := c.velero.ResourceFor(schema.ParseGroupResource(entry).WithVersion(""))
		return err != nil || resource.Namespaced == namespaced
	})
}
