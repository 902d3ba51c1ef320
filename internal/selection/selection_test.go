// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func compile(t *testing.T, spec Spec, namespaces ...string) *Selection {
	t.Helper()
	s, err := Compile(spec, testCluster, namespaces)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return s
}

func TestResourceInclusion(t *testing.T) {
	yes, no := true, false
	const (
		pods  = "pods"
		pv    = "persistentvolumes"
		roles = "clusterroles.rbac.authorization.k8s.io"
		ns    = "namespaces"
	)
	for name, tc := range map[string]struct {
		spec Spec
		want map[string]Inclusion
	}{
		"no filter": {
			want: map[string]Inclusion{pods: Included, pv: Included, ns: Included, "backups.velero.io": Excluded, "volumesnapshots.snapshot.storage.k8s.io": Excluded},
		},
		"what a backup should not have": {
			spec: Spec{FromBackup: true},
			want: map[string]Inclusion{"backups.velero.io": Included, "volumesnapshots.snapshot.storage.k8s.io": Included},
		},
		"a namespace": {
			spec: Spec{IncludedNamespaces: []string{"a"}},
			want: map[string]Inclusion{pods: Included, pv: RelatedOnly, ns: Included},
		},
		"a namespace, excluded cluster-scoped resource": {
			spec: Spec{IncludedNamespaces: []string{"a"}, ExcludedClusterScopedResources: []string{"pv"}},
			want: map[string]Inclusion{pods: Included, pv: Excluded, roles: RelatedOnly, ns: Included},
		},
		"all namespaces by name are all namespaces": {
			spec: Spec{IncludedNamespaces: []string{"b", "a"}},
			want: map[string]Inclusion{pv: Included},
		},
		"all namespaces of a backup by name": {
			spec: Spec{IncludedNamespaces: []string{"b", "a"}, FromBackup: true},
			want: map[string]Inclusion{pods: Included, pv: RelatedOnly},
		},
		"an excluded namespace": {
			spec: Spec{ExcludedNamespaces: []string{"missing"}},
			want: map[string]Inclusion{pv: RelatedOnly},
		},
		"namespaced resources only, by the older list": {
			spec: Spec{IncludedResources: []string{"pods"}},
			want: map[string]Inclusion{pods: Included, pv: Excluded, ns: RelatedOnly},
		},
		"namespaced resources only, by the scoped list": {
			spec: Spec{IncludedNamespaceScopedResources: []string{"pods"}},
			want: map[string]Inclusion{pods: Included, "secrets": Excluded, pv: RelatedOnly, ns: Included},
		},
		"all cluster-scoped resources allowed, one asked for": {
			spec: Spec{IncludedResources: []string{"pods", "pv"}, IncludeClusterResources: &yes},
			want: map[string]Inclusion{pv: Included, roles: RelatedOnly, ns: RelatedOnly},
		},
		"no cluster-scoped resources": {
			spec: Spec{IncludeClusterResources: &no},
			want: map[string]Inclusion{pods: Included, pv: Excluded, ns: RelatedOnly},
		},
		"excluded namespaces resource": {
			spec: Spec{ExcludedResources: []string{"namespaces"}},
			want: map[string]Inclusion{pv: Included, ns: RelatedOnly},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := compile(t, tc.spec, "a", "b")
			got := map[string]Inclusion{}
			for name := range tc.want {
				got[name] = s.ResourceInclusion(schema.ParseGroupResource(name), testCluster[name])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Resource (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	type answer struct {
		Names []string
		All   bool
	}
	for name, tc := range map[string]struct {
		spec Spec
		want answer
	}{
		"no filter":         {want: answer{[]string{"a", "b", "c"}, true}},
		"star":              {spec: Spec{IncludedNamespaces: []string{"*"}}, want: answer{[]string{"a", "b", "c"}, true}},
		"all by name":       {spec: Spec{IncludedNamespaces: []string{"c", "a", "b"}}, want: answer{[]string{"a", "b", "c"}, false}},
		"one excluded":      {spec: Spec{ExcludedNamespaces: []string{"b"}}, want: answer{[]string{"a", "c"}, false}},
		"opted out":         {spec: Spec{OptedOutNamespaces: []string{"b"}}, want: answer{[]string{"a", "c"}, false}},
		"some do not exist": {spec: Spec{IncludedNamespaces: []string{"x", "b"}}, want: answer{[]string{"b"}, false}},
		"pattern":           {spec: Spec{IncludedNamespaces: []string{"[ab]"}, ExcludedNamespaces: []string{"a*"}}, want: answer{[]string{"b"}, false}},
		"no match":          {spec: Spec{IncludedNamespaces: []string{"x*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			names, all := compile(t, tc.spec, "b", "c", "a").IncludedNamespaces()
			if diff := cmp.Diff(tc.want, answer{names, all}); diff != "" {
				t.Errorf("Namespaces (-want +got):\n%s", diff)
			}
		})
	}
}

// Namespaces that are created during a backup: if include patterns applied to them, a part
// of one would be archived; if exclude patterns did not, one that must be excluded would be
// archived.
func TestIncludesNamespace_CreatedLater(t *testing.T) {
	for name, tc := range map[string]struct {
		spec Spec
		want bool
	}{
		"no filter":             {want: true},
		"included by a pattern": {spec: Spec{IncludedNamespaces: []string{"lat*"}}},
		"included by name":      {spec: Spec{IncludedNamespaces: []string{"later"}}, want: true},
		"excluded by a pattern": {spec: Spec{ExcludedNamespaces: []string{"lat*"}}},
		"named and excluded":    {spec: Spec{IncludedNamespaces: []string{"later"}, ExcludedNamespaces: []string{"lat*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compile(t, tc.spec, "a").IncludesNamespace("later"); got != tc.want {
				t.Errorf("IncludesNamespace: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestShouldArchiveNamespace(t *testing.T) {
	s := compile(t, Spec{}, "a")
	if s.ShouldArchiveNamespace(NamespaceObject{Name: "a"}) {
		t.Error("an empty namespace that is being deleted is archived")
	}
	if !s.ShouldArchiveNamespace(NamespaceObject{Name: "a", HasItems: true}) {
		t.Error("the namespace of a selected item is not archived")
	}
}

func TestListSelectors(t *testing.T) {
	a := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1", "b": "2"}}
	b := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpExists}}}
	everything := &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		spec   Spec
		want   []string
		labels map[string]string
		match  bool
	}{
		"none":                {match: true},
		"one":                 {spec: Spec{LabelSelector: a}, want: []string{"a=1,b=2"}, labels: map[string]string{"a": "1"}},
		"empty":               {spec: Spec{LabelSelector: everything}, match: true},
		"one alternative":     {spec: Spec{OrLabelSelectors: []*metav1.LabelSelector{b}}, want: []string{"c"}, labels: map[string]string{"c": ""}, match: true},
		"alternatives":        {spec: Spec{OrLabelSelectors: []*metav1.LabelSelector{a, b}}, labels: map[string]string{"c": ""}, match: true},
		"no alternative":      {spec: Spec{OrLabelSelectors: []*metav1.LabelSelector{a, b}}, labels: map[string]string{"a": "1"}},
		"alternative for all": {spec: Spec{OrLabelSelectors: []*metav1.LabelSelector{a, everything}}, match: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := compile(t, tc.spec)
			if diff := cmp.Diff(tc.want, s.ListSelectors()); diff != "" {
				t.Errorf("ListSelectors (-want +got):\n%s", diff)
			}
			if got := s.MatchesLabels(tc.labels); got != tc.match {
				t.Errorf("MatchesLabels(%v): %v, want %v", tc.labels, got, tc.match)
			}
		})
	}
}

func TestOrderedItems(t *testing.T) {
	s := compile(t, Spec{OrderedResources: map[string]string{
		"po":      "b/y, a/x,b/y",
		"secrets": "",
		"pv":      "two,one",
		"widgets": "a/w",
	}})
	item := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	for name, want := range map[string][]types.NamespacedName{
		"pods":                {item("b", "y"), item("a", "x")},
		"secrets":             nil,
		"persistentvolumes":   {item("", "two"), item("", "one")},
		"widgets.example.com": {item("a", "w")}, // Velero ignores the group
		"deployments.apps":    nil,
	} {
		if diff := cmp.Diff(want, s.OrderedItems(schema.ParseGroupResource(name))); diff != "" {
			t.Errorf("Ordered(%s) (-want +got):\n%s", name, diff)
		}
	}
}
