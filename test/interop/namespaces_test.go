// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/glob"
	"github.com/google/go-cmp/cmp"
	"github.com/vmware-tanzu/velero/pkg/util/collections"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

var namespaceNames = []string{"a", "b", "app-1", "app-2", "app-10", "prod", "team-a", "team-b", "kube-system"}

// namespaceEntry generates what users write into includedNamespaces, and what
// they should not.
func namespaceEntry() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(namespaceNames),
		rapid.SampledFrom(namespaceNames),
		rapid.SampledFrom([]string{
			"*", "", "missing", "app-*", "*-a", "app-?", "app-[12]", "app-[1-3]", "[ab]", "team-[a-b]", "*prod*", "?",
			"x*", "zz-*", "?*", "**", "app-**", "{a,b}", "a,b", "[", "]", "[]", "[[a]", "app-[", "a]b", "(a)", "!a", "a|b", "[!a]",
			"A", "a_b", "-a", "a-", "a.b", "[z-a]", "[-a]", "[a-]", strings.Repeat("a", 64),
		}),
		rapid.StringMatching(`[abp\-]{0,3}[*?]?[\[]?[a-c]?[\]]?[*?\-0-9]?`),
	)
}

func namespaceList() *rapid.Generator[[]string] {
	return rapid.SliceOfN(namespaceEntry(), 0, 3)
}

// TestValidate_Namespaces compares which namespace lists are refused.
func TestValidate_Namespaces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		include, exclude := namespaceList().Draw(rt, "include"), namespaceList().Draw(rt, "exclude")
		velero := collections.ValidateNamespaceIncludesExcludes(include, exclude)
		grapnel := selection.Validate(selection.Spec{IncludedNamespaces: include, ExcludedNamespaces: exclude})
		switch {
		case len(velero) > 0 && len(grapnel) == 0:
			rt.Fatalf("only Velero refuses: %v", velero)
		case len(velero) == 0 && len(grapnel) > 0 && !allowedToRefuseNamespaces(include, exclude):
			rt.Fatalf("only Grapnel refuses: %v", grapnel)
		}
	})
}

// allowedToRefuseNamespaces: Velero validates patterns character by character
// and fails later, when it compiles one such as "[z-a]"; Grapnel compiles them
// when it validates.
func allowedToRefuseNamespaces(include, exclude []string) bool {
	return slices.ContainsFunc(slices.Concat(include, exclude), func(entry string) bool {
		_, err := glob.Compile(entry)
		return err != nil
	})
}

// veleroNamespaces does what Velero's backup does with its namespace lists.
func veleroNamespaces(rt *rapid.T, active, include, exclude []string) *collections.NamespaceIncludesExcludes {
	if len(include) == 0 {
		include = []string{"*"} // the backup controller does this
	}
	nie := collections.NewNamespaceIncludesExcludes().
		ActiveNamespaces(active).Includes(include...).Excludes(exclude...)
	if err := nie.ExpandIncludesExcludes(true); err != nil {
		rt.Fatalf("expanding with Velero: %v", err)
	}
	return nie
}

// namespaceFilter is a generated set of namespaces and valid lists.
type namespaceFilter struct {
	active, include, exclude []string
}

func validNamespaceFilter() *rapid.Generator[namespaceFilter] {
	return rapid.Custom(func(t *rapid.T) namespaceFilter {
		f := namespaceFilter{
			active:  rapid.SliceOfNDistinct(rapid.SampledFrom(namespaceNames), 0, 5, rapid.ID).Draw(t, "active"),
			include: namespaceList().Draw(t, "include"),
			exclude: namespaceList().Draw(t, "exclude"),
		}
		slices.Sort(f.active) // as an API server lists them
		switch rapid.IntRange(0, 7).Draw(t, "everything") {
		case 0:
			f.include = f.active
		case 1:
			f.include = []string{"?*"}
		}
		return f
	}).Filter(func(f namespaceFilter) bool {
		return len(selection.Validate(selection.Spec{IncludedNamespaces: f.include, ExcludedNamespaces: f.exclude})) == 0
	})
}

// TestIncludedNamespaces compares which namespaces are included.
func TestIncludedNamespaces(t *testing.T) {
	c := newClients(t)
	rapid.Check(t, func(rt *rapid.T) {
		f := validNamespaceFilter().Draw(rt, "filter")
		velero := veleroNamespaces(rt, f.active, f.include, f.exclude)
		grapnel, err := selection.Compile(
			selection.Spec{IncludedNamespaces: f.include, ExcludedNamespaces: f.exclude}, c.grapnel, f.active)
		if err != nil {
			rt.Fatalf("compiling: %v", err)
		}
		want, err := velero.ResolveNamespaceList(true)
		if err != nil {
			rt.Fatalf("resolving with Velero: %v", err)
		}
		got, all := grapnel.IncludedNamespaces()
		if diff := cmp.Diff(want, append([]string{}, got...)); diff != "" {
			rt.Fatalf("existing namespaces (-Velero +Grapnel):\n%s", diff)
		}
		if all && !velero.IncludeEverything() {
			rt.Fatalf("Grapnel sees no namespace filter, Velero does")
		}
		for _, name := range append([]string{"missing", "later"}, namespaceNames...) {
			if velero, grapnel := velero.ShouldInclude(name), grapnel.IncludesNamespace(name); velero != grapnel &&
				!allowedToExclude(f, name, grapnel) {
				rt.Fatalf("namespace %q: Velero %v, Grapnel %v", name, velero, grapnel)
			}
		}
	})
}

// allowedToExclude: beside a list of included names Velero expands exclude
// patterns when the backup starts, so that a namespace created later is
// included if it is listed, even if a pattern excludes it.
func allowedToExclude(f namespaceFilter, name string, included bool) bool {
	return !included && !slices.Contains(f.active, name) && slices.ContainsFunc(f.exclude, func(entry string) bool {
		g, err := glob.Compile(entry)
		return err == nil && g.Match(name)
	})
}

// TestResourceInclusion_WholeCluster compares when a backup counts as one of the whole cluster,
// which decides about cluster-scoped resources that were not selected.
func TestResourceInclusion_WholeCluster(t *testing.T) {
	c := newClients(t)
	clusterRoles := schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
	rapid.Check(t, func(rt *rapid.T) {
		f := validNamespaceFilter().Draw(rt, "filter")
		velero := veleroNamespaces(rt, f.active, f.include, f.exclude)
		grapnel, err := selection.Compile(
			selection.Spec{IncludedNamespaces: f.include, ExcludedNamespaces: f.exclude}, c.grapnel, f.active)
		if err != nil {
			rt.Fatalf("compiling: %v", err)
		}
		got := grapnel.ResourceInclusion(clusterRoles, false) == selection.Included
		if want := velero.IncludeEverything(); got != want && !allowedToBeSmaller(velero, f, got) {
			rt.Fatalf("whole cluster: Velero %v, Grapnel %v", want, got)
		}
	})
}

// allowedToBeSmaller: if no namespace matches the include patterns, the list
// is empty after Velero has expanded it, and empty means everything.
func allowedToBeSmaller(velero *collections.NamespaceIncludesExcludes, f namespaceFilter, whole bool) bool {
	return !whole && len(f.include) > 0 && len(velero.GetIncludes()) == 0
}
