// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// TestDiscover compares which resources can be archived, in which
// version, and the order of their groups.
func TestDiscover(t *testing.T) {
	c := newClients(t)

	type entry struct {
		GVR        schema.GroupVersionResource
		Kind       string
		Namespaced bool
	}
	var want, got []entry
	var wantGroups, gotGroups []string
	for _, list := range c.velero.Resources() {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			// Allowed: Velero archives its own runs and refuses to restore
			// them; Grapnel leaves them out in the first place.
			if selection.IsNeverArchived(schema.GroupResource{Group: gv.Group, Resource: r.Name}) {
				continue
			}
			want = append(want, entry{gv.WithResource(r.Name), r.Kind, r.Namespaced})
			wantGroups = append(wantGroups, list.GroupVersion)
		}
	}
	for _, r := range c.grapnel.Preferred {
		got = append(got, entry{r.GVR, r.Kind, r.Namespaced})
		gotGroups = append(gotGroups, r.GVR.GroupVersion().String())
	}
	// Velero's order within a group version is that of a Go map.
	byGVR := func(a, b entry) int { return strings.Compare(a.GVR.String(), b.GVR.String()) }
	slices.SortFunc(want, byGVR)
	slices.SortFunc(got, byGVR)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-Velero +Grapnel):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Compact(wantGroups), slices.Compact(gotGroups)); diff != "" {
		t.Errorf("order of groups (-Velero +Grapnel):\n%s", diff)
	}
}

// TestResolve compares what a resource name in a spec means.
func TestResolve(t *testing.T) {
	c := newClients(t)
	rapid.Check(t, func(rt *rapid.T) {
		name := resourceName().Draw(rt, "name")
		gvr, _, err := c.velero.ResourceFor(schema.ParseGroupResource(name).WithVersion(""))
		got, ok := c.grapnel.Resolve(name)
		switch {
		case err == nil && (!ok || got != gvr.GroupResource()):
			rt.Fatalf("%q: Velero finds %s, Grapnel %s (found: %v)", name, gvr.GroupResource(), got, ok)
		case err != nil && ok:
			rt.Fatalf("%q: Velero finds nothing (%v), Grapnel finds %s", name, err, got)
		}
	})
}

// resourceName generates names of existing resources in every form that users write,
// and names of nothing.
func resourceName() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		gv := rapid.SampledFrom(cluster).Draw(t, "group")
		fields := strings.Fields(string(rapid.SampledFrom(gv.resources).Draw(t, "resource")))
		forms := []string{fields[0], fields[0], strings.ToLower(fields[1]), fields[1]}
		if fields[3] != "-" {
			forms = append(forms, strings.Split(fields[3], ",")...)
		}
		forms = append(forms, "unknowns", strings.ToUpper(fields[0]), strings.ToUpper(fields[3]))
		name := rapid.SampledFrom(forms).Draw(t, "form")
		switch rapid.SampledFrom([]string{"none", "none", "full", "full", "prefix", "other"}).Draw(t, "suffix") {
		case "full":
			if gv.group != "" {
				name += "." + gv.group
			}
		case "prefix":
			if n := len(gv.group); n > 1 {
				name += "." + gv.group[:rapid.IntRange(1, n-1).Draw(t, "length")]
			}
		case "other":
			name += ".example.com"
		}
		return name
	})
}
