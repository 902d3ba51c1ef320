// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestValidate checks which fields are reported; test/interop compares in detail with
// Velero which values are accepted and rejected.
func TestValidate(t *testing.T) {
	yes := true
	badSelector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}

	for name, tc := range map[string]struct {
		spec Spec
		want []string // field: part of the problem
	}{
		"nothing": {},
		"everything that is allowed": {spec: Spec{
			IncludedNamespaces: []string{"app-*", "team-?", "[ab]x", "a-*-b-*-c", "pr-[0-9][0-9][0-9]-??", "a-*-b-*-c-*-d-*-e-*-f", "kube-system", ""},
			ExcludedNamespaces: []string{"app-old", "*-tmp"},
			IncludedResources:  []string{"po", "Deployment", "*.apps", "{secrets,configmaps}", "*.{apps,batch}", "*.*.example.org"},
			LabelSelector:      &metav1.LabelSelector{},
			OrderedResources:   map[string]string{"pods": "a/b, a/c", "clusterroles": "system:node", "secrets": ""},
		}},
		"every error at once, in the order of the fields": {
			spec: Spec{
				IncludedNamespaces:             []string{"good", "Bad", "*"},
				ExcludedNamespaces:             []string{"*", "good"},
				IncludedResources:              []string{"pods/log", "pods"},
				ExcludedResources:              []string{"pods"},
				IncludedClusterScopedResources: []string{"nodes", "["},
				LabelSelector:                  badSelector,
				OrLabelSelectors:               []*metav1.LabelSelector{nil, badSelector},
				OrderedResources:               map[string]string{"p*": "a/b/c"},
			},
			want: []string{
				`spec.includedNamespaces[2]: must be the only entry`,
				`spec.excludedNamespaces[0]: would exclude everything`,
				`spec.excludedNamespaces[0]: is also in spec.includedNamespaces[2]`,
				`spec.excludedNamespaces[1]: is also in spec.includedNamespaces[0]`,
				`spec.includedNamespaces[1]: is not a namespace name`,
				`spec.includedResources, spec.excludedResources: cannot be combined with spec.includedClusterScopedResources`,
				`spec.excludedResources[0]: is also in spec.includedResources[1]`,
				`spec.includedResources[0]: contains a slash`,
				`spec.includedClusterScopedResources[1]: is not a valid pattern`,
				`spec.orLabelSelectors: cannot be combined with spec.labelSelector`,
				`spec.labelSelector: "Near" is not a valid label selector operator`,
				`spec.orLabelSelectors[0]: is null`,
				`spec.orLabelSelectors[1]: "Near" is not a valid label selector operator`,
				`spec.orderedResources[p*]: is a pattern`,
				`spec.orderedResources[p*]: "a/b/c" has no valid name`,
			},
		},
		"the cluster resources flag with scoped lists": {
			spec: Spec{IncludeClusterResources: &yes, ExcludedNamespaceScopedResources: []string{"secrets"}},
			want: []string{`spec.includeClusterResources: cannot be combined with spec.excludedNamespaceScopedResources`},
		},
		"include beside exclude everything": {
			spec: Spec{IncludedNamespaceScopedResources: []string{"pods"}, ExcludedNamespaceScopedResources: []string{"*"}},
			want: []string{`spec.excludedNamespaceScopedResources[0]: excludes everything in spec.includedNamespaceScopedResources`},
		},
		"namespace patterns": {
			spec: Spec{IncludedNamespaces: []string{"a**", "[", "a]", "[]", "{a,b}", "[z-a]"}},
			want: []string{
				`spec.includedNamespaces[0]: contains **`,
				`spec.includedNamespaces[1]: has a [ without a ]`,
				`spec.includedNamespaces[2]: has a ] without a [`,
				`spec.includedNamespaces[3]: has an empty set`,
				`spec.includedNamespaces[4]: do not support`,
				`spec.includedNamespaces[5]: is not a valid pattern`,
			},
		},
		"resource names": {
			spec: Spec{IncludedResources: []string{"", "a b", "pods,secrets"}},
			want: []string{
				`spec.includedResources[0]: is empty`,
				`spec.includedResources[1]: contains white space`,
				`spec.includedResources[2]: contains a comma`,
			},
		},
		"ordered items": {
			spec: Spec{OrderedResources: map[string]string{"pods": "a/b,,Bad/c,/d,e/"}},
			want: []string{
				`spec.orderedResources[pods]: "" has no valid name`,
				`spec.orderedResources[pods]: "Bad/c" has no valid namespace`,
				`spec.orderedResources[pods]: "/d" has no valid namespace`,
				`spec.orderedResources[pods]: "e/" has no valid name`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Validate(tc.spec)
			if len(errs) != len(tc.want) {
				t.Fatalf("Validate: %d errors, want %d:\n%v", len(errs), len(tc.want), errors.Join(errs...))
			}
			for i, err := range errs {
				var fieldErr *FieldError
				if !errors.As(err, &fieldErr) {
					t.Fatalf("%v is a %T, want a *FieldError", err, err)
				}
				field, problem, _ := strings.Cut(tc.want[i], ": ")
				if fieldErr.Field != field || !strings.Contains(fieldErr.Problem, problem) {
					t.Errorf("error %d: %v, want %s", i, err, tc.want[i])
				}
			}
			if _, err := Compile(tc.spec, testCluster, nil); (err != nil) != (len(tc.want) > 0) {
				t.Errorf("Compile: %v, although Validate reports %d errors", err, len(tc.want))
			}
		})
	}
}

// TestValidateNamespaces lists names and patterns as Velero's
// TestValidateNamespaceIncludesExcludes does (pkg/util/collections of
// github.com/vmware-tanzu/velero v1.18.3, Copyright the Velero contributors,
// Apache License 2.0).
func TestValidateNamespaces(t *testing.T) {
	for entry, valid := range map[string]bool{
		"foo": true, "*": true, "": true, "ns-*": true, "*-ns": true, "a?b": true, "ns-[0-9]": true, "ns-[abc]": true,
		"ns-**": false, "ns-[": false, "ns-[]": false, "ns-]": false, "ns-(a)": false, "a|b": false, "!a": false,
		"foo.bar": false, "foo/bar": false, "ns_1": false, "-ns": false, "ns{1,2}": false, "a,b": false,
	} {
		if errs := Validate(Spec{IncludedNamespaces: []string{entry}}); (len(errs) == 0) != valid {
			t.Errorf("%q: %v, want valid: %v", entry, errs, valid)
		}
	}
}

func TestMissingNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		spec Spec
		want []string
	}{
		"all exist":                {spec: Spec{IncludedNamespaces: []string{"a", "b"}}},
		"everything":               {spec: Spec{IncludedNamespaces: []string{"*"}}},
		"no namespaces are named":  {spec: Spec{}},
		"patterns without a match": {spec: Spec{IncludedNamespaces: []string{"x*", "?", "[cd]"}}},
		"names that do not exist": {
			spec: Spec{IncludedNamespaces: []string{"z", "a", "x*", "c", "z"}}, want: []string{"z", "c"},
		},
		"names that are also excluded": {spec: Spec{IncludedNamespaces: []string{"a", "app-9"}, ExcludedNamespaces: []string{"app-*"}}},
		"of a backup":                  {spec: Spec{IncludedNamespaces: []string{"z"}, FromBackup: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.spec, testCluster, []string{"b", "a", "app-1"})
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			if diff := cmp.Diff(tc.want, s.MissingNamespaces(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("MissingNamespaces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnmatchedWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		spec Spec
		want []string
	}{
		"nothing to say": {spec: Spec{
			IncludedNamespaces: []string{"a", "app-*"}, ExcludedNamespaces: []string{"missing", "app-2"},
			IncludedResources: []string{"po", "*.apps"}, ExcludedResources: []string{"unknown"},
		}},
		"namespaces": {
			spec: Spec{
				IncludedNamespaces: []string{"a", "missing", "x*", "app-2", "?pp-*", "b"},
				ExcludedNamespaces: []string{"app-*"}, OptedOutNamespaces: []string{"b"},
			},
			want: []string{
				`spec.includedNamespaces[2]: no namespace matches the pattern "x*"`,
				`spec.includedNamespaces[3]: namespace "app-2" is excluded`,
				`spec.includedNamespaces[4]: every namespace that matches the pattern "?pp-*" is excluded`,
				`spec.includedNamespaces[5]: namespace "b" carries the label grapnel.dev/exclude-from-backup or ` +
					`velero.io/exclude-from-backup, which keeps it out of every backup`,
			},
		},
		"resources": {
			spec: Spec{
				IncludedResources: []string{
					"po", "widgets", "*.example.com", "backups.velero.io", "deploy",
					"volumesnapshots.snapshot.storage.k8s.io", "*.velero.io",
				},
				ExcludedResources: []string{"deployments.apps"},
			},
			want: []string{
				`spec.includedResources[1]: the cluster does not serve a resource "widgets" that can be archived`,
				`spec.includedResources[2]: no resource of the cluster matches the pattern "*.example.com"`,
				`spec.includedResources[3]: "backups.velero.io" are records of backup runs and are never archived`,
				`spec.includedResources[4]: resource "deployments.apps" is excluded`,
				`spec.includedResources[5]: "volumesnapshots.snapshot.storage.k8s.io" are archived only where a plugin asks for them`,
				`spec.includedResources[6]: no resource of the cluster matches the pattern "*.velero.io"`,
			},
		},
		"scopes": {
			spec: Spec{IncludedNamespaceScopedResources: []string{"nodes", "po"}, IncludedClusterScopedResources: []string{"po"}},
			want: []string{
				`spec.includedNamespaceScopedResources[0]: "nodes" is cluster-scoped and has no effect here`,
				`spec.includedClusterScopedResources[0]: "po" is namespaced and has no effect here`,
			},
		},
		"opted-out namespaces cost the cluster-scoped resources": {
			spec: Spec{OptedOutNamespaces: []string{"b"}},
			want: []string{
				`spec.includeClusterResources: cluster-scoped resources are archived only where included items need them, ` +
					`because namespaces carry the label grapnel.dev/exclude-from-backup or velero.io/exclude-from-backup (b); ` +
					`set it to true to archive all of them`,
			},
		},
		"of a backup": {
			spec: Spec{
				FromBackup:         true,
				IncludedNamespaces: []string{"a", "missing", "x*"},
				IncludedResources:  []string{"po", "widgets", "*.example.com", "backups.velero.io", "volumesnapshots.snapshot.storage.k8s.io"},
			},
			want: []string{
				`spec.includedNamespaces[1]: the backup contains nothing of namespace "missing"`,
				`spec.includedNamespaces[2]: no namespace of the backup matches the pattern "x*"`,
				`spec.includedResources[1]: neither the backup nor the cluster has a resource "widgets"`,
				`spec.includedResources[2]: no resource of the backup or the cluster matches the pattern "*.example.com"`,
				`spec.includedResources[3]: "backups.velero.io" are records of backup runs and are never restored`,
				`spec.includedResources[4]: "volumesnapshots.snapshot.storage.k8s.io" are never restored`,
			},
		},
		"order": {
			spec: Spec{OrderedResources: map[string]string{"po": "a/x", "pods": "a/y", "widgets": "a/z"}},
			want: []string{
				`spec.orderedResources[pods]: pods is ordered by spec.orderedResources[po] already`,
				`spec.orderedResources[widgets]: the cluster does not serve a resource "widgets" that can be archived`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.spec, testCluster, []string{"b", "a", "app-1", "app-2"})
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			if diff := cmp.Diff(tc.want, s.UnmatchedWarnings()); diff != "" {
				t.Errorf("Unmatched (-want +got):\n%s", diff)
			}
		})
	}
}
