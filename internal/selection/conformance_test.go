// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The cases named "velero: ..." are transcribed from the tables in
// pkg/backup/backup_test.go of github.com/vmware-tanzu/velero v1.18.3,
// Copyright the Velero contributors, Apache License 2.0: what is in the
// cluster, the filters, and what is in the archive. Items are written
// "resource/name", "resource/namespace/name", both with "label=value,..."
// appended after a blank.

const (
	twoOfEach = "pods/foo/bar;pods/zoo/raz;deployments.apps/foo/bar;deployments.apps/zoo/raz"
	threePods = "pods/ns-1/pod-1;pods/ns-2/pod-1;pods/ns-3/pod-1"
	twoPVs    = "persistentvolumes/pv-1;persistentvolumes/pv-2"
	oneCRD    = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com"
	threeNS   = "namespaces/ns-1;namespaces/ns-2;namespaces/ns-3"
)

func TestSelection_Conformance(t *testing.T) {
	yes, no := true, false
	ab := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	cd := &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}}

	for name, tc := range map[string]struct {
		spec  Spec
		items string
		want  string
	}{
		"velero: no filters backs up everything": {
			items: twoOfEach,
			want:  twoOfEach,
		},
		"velero: included resources": {
			spec:  Spec{IncludedResources: []string{"pods"}},
			items: twoOfEach,
			want:  "pods/foo/bar;pods/zoo/raz",
		},
		"velero: excluded resources": {
			spec:  Spec{ExcludedResources: []string{"deployments"}},
			items: twoOfEach,
			want:  "pods/foo/bar;pods/zoo/raz",
		},
		"velero: included namespaces": {
			spec:  Spec{IncludedNamespaces: []string{"foo"}},
			items: twoOfEach,
			want:  "pods/foo/bar;deployments.apps/foo/bar",
		},
		"velero: excluded namespaces": {
			spec:  Spec{ExcludedNamespaces: []string{"zoo"}},
			items: twoOfEach,
			want:  "pods/foo/bar;deployments.apps/foo/bar",
		},
		"velero: includeClusterResources=false backs up namespaced resources only": {
			spec:  Spec{IncludeClusterResources: &no},
			items: twoOfEach + ";" + twoPVs,
			want:  twoOfEach,
		},
		"velero: label selector": {
			spec: Spec{LabelSelector: ab},
			items: "pods/foo/bar a=b;pods/zoo/raz;deployments.apps/foo/bar;deployments.apps/zoo/raz a=b;" +
				"persistentvolumes/bar a=b;persistentvolumes/baz a=c",
			want: "pods/foo/bar;deployments.apps/zoo/raz;persistentvolumes/bar",
		},
		"velero: or label selectors": {
			spec: Spec{OrLabelSelectors: []*metav1.LabelSelector{ab, cd}},
			items: "pods/foo/bar a=b;pods/zoo/raz;deployments.apps/foo/bar;deployments.apps/zoo/raz c=d;" +
				"persistentvolumes/bar c=d;persistentvolumes/baz e=f",
			want: "pods/foo/bar;deployments.apps/zoo/raz;persistentvolumes/bar",
		},
		"velero: exclude label wins over label selector": {
			spec: Spec{LabelSelector: ab},
			items: "pods/foo/bar a=b,velero.io/exclude-from-backup=true;pods/zoo/raz a=b;" +
				"persistentvolumes/bar a=b;persistentvolumes/baz a=b,velero.io/exclude-from-backup=true",
			want: "pods/zoo/raz;persistentvolumes/bar",
		},
		"velero: exclude label with another value than true": {
			items: "pods/foo/bar velero.io/exclude-from-backup=false;deployments.apps/zoo/raz velero.io/exclude-from-backup=1;" +
				"persistentvolumes/baz velero.io/exclude-from-backup=",
			want: "pods/foo/bar;deployments.apps/zoo/raz;persistentvolumes/baz",
		},
		"our exclude label": {
			items: "pods/foo/bar grapnel.dev/exclude-from-backup=true;pods/foo/baz",
			want:  "pods/foo/baz",
		},
		"velero: some namespaces and includeClusterResources=true": {
			spec:  Spec{IncludedNamespaces: []string{"ns-1", "ns-2"}, IncludeClusterResources: &yes},
			items: threePods + ";" + twoPVs,
			want:  "pods/ns-1/pod-1;pods/ns-2/pod-1;" + twoPVs,
		},
		"velero: some namespaces and includeClusterResources=false": {
			spec:  Spec{IncludedNamespaces: []string{"ns-1", "ns-2"}, IncludeClusterResources: &no},
			items: threePods + ";" + twoPVs,
			want:  "pods/ns-1/pod-1;pods/ns-2/pod-1",
		},
		"velero: some namespaces and includeClusterResources unset": {
			spec:  Spec{IncludedNamespaces: []string{"ns-1", "ns-2"}},
			items: threePods + ";" + twoPVs,
			want:  "pods/ns-1/pod-1;pods/ns-2/pod-1",
		},
		"velero: all namespaces and includeClusterResources=true": {
			spec:  Spec{IncludeClusterResources: &yes},
			items: threePods + ";" + twoPVs,
			want:  threePods + ";" + twoPVs,
		},
		"velero: all namespaces and includeClusterResources unset": {
			items: threePods + ";" + twoPVs,
			want:  threePods + ";" + twoPVs,
		},
		"velero: unresolvable included resources are ignored": {
			spec:  Spec{IncludedResources: []string{"pods", "unresolvable"}},
			items: twoOfEach,
			want:  "pods/foo/bar;pods/zoo/raz",
		},
		"velero: when no included resource resolves, nothing is included": {
			spec:  Spec{IncludedResources: []string{"unresolvable-1", "unresolvable-2"}},
			items: twoOfEach,
		},
		"velero: unresolvable excluded resources are ignored": {
			spec:  Spec{ExcludedResources: []string{"deployments", "unresolvable"}},
			items: twoOfEach,
			want:  "pods/foo/bar;pods/zoo/raz",
		},
		"velero: no namespaced and some cluster-scoped resources": {
			spec: Spec{
				IncludedClusterScopedResources:   []string{"persistentvolumes"},
				ExcludedNamespaceScopedResources: []string{"*"},
			},
			items: twoOfEach + ";" + twoPVs + ";" + oneCRD,
			want:  twoPVs,
		},
		"velero: no namespaced and all cluster-scoped resources": {
			spec: Spec{
				IncludedClusterScopedResources:   []string{"*"},
				ExcludedNamespaceScopedResources: []string{"*"},
			},
			items: twoOfEach + ";" + twoPVs + ";" + oneCRD,
			want:  twoPVs + ";" + oneCRD,
		},
		"velero: some namespaces and no cluster-scoped resources": {
			spec:  Spec{ExcludedClusterScopedResources: []string{"*"}, IncludedNamespaces: []string{"foo", "zoo"}},
			items: twoOfEach + ";" + twoPVs + ";" + oneCRD,
			want:  twoOfEach,
		},
		"velero: some namespaced and no cluster-scoped resources": {
			spec: Spec{
				ExcludedClusterScopedResources:   []string{"*"},
				ExcludedNamespaceScopedResources: []string{"pods"},
			},
			items: twoOfEach + ";" + twoPVs + ";" + oneCRD,
			want:  "deployments.apps/foo/bar;deployments.apps/zoo/raz",
		},
		"velero: some namespaced and only related cluster-scoped resources": {
			spec: Spec{
				IncludedNamespaces:               []string{"foo"},
				IncludedNamespaceScopedResources: []string{"pods", "persistentvolumeclaims"},
			},
			items: twoOfEach + ";" + twoPVs,
			want:  "pods/foo/bar",
		},
		"velero: some namespaced and some additional cluster-scoped resources": {
			spec: Spec{
				IncludedNamespaces:             []string{"foo"},
				IncludedClusterScopedResources: []string{"customresourcedefinitions"},
			},
			items: twoOfEach + ";" + twoPVs + ";" + oneCRD,
			want:  "pods/foo/bar;deployments.apps/foo/bar;" + oneCRD,
		},
		"velero: namespaces of items selected by label come along, empty ones do not": {
			spec:  Spec{LabelSelector: ab},
			items: threeNS + ";deployments.apps/ns-1/deploy-1 a=b",
			want:  "namespaces/ns-1;deployments.apps/ns-1/deploy-1",
		},
		"velero: namespaces of items selected by or label selectors": {
			spec:  Spec{OrLabelSelectors: []*metav1.LabelSelector{ab, cd}},
			items: threeNS + ";deployments.apps/ns-1/deploy-1 a=b;deployments.apps/ns-2/deploy-2 c=d",
			want:  "namespaces/ns-1;namespaces/ns-2;deployments.apps/ns-1/deploy-1;deployments.apps/ns-2/deploy-2",
		},
		"velero: label selector and excluded namespaces": {
			spec:  Spec{ExcludedNamespaces: []string{"ns-1", "ns-2"}, LabelSelector: ab},
			items: "namespaces/ns-1 a=b;namespaces/ns-2;namespaces/ns-3;deployments.apps/ns-1/deploy-1 a=b",
			want:  "namespaces/ns-1;namespaces/ns-3",
		},
		"velero: a pattern that matches no namespace selects nothing": {
			spec:  Spec{IncludedNamespaces: []string{"invalid*"}},
			items: threeNS + ";deployments.apps/ns-1/deploy-1 a=b",
		},
		"velero: star with excluded namespaces": {
			spec:  Spec{IncludedNamespaces: []string{"*"}, ExcludedNamespaces: []string{"ns-2"}},
			items: threeNS + ";deployments.apps/ns-1/deploy-1;deployments.apps/ns-2/deploy-2",
			want:  "namespaces/ns-1;namespaces/ns-3;deployments.apps/ns-1/deploy-1",
		},
		"velero: without filters empty namespaces are archived": {
			items: threeNS + ";deployments.apps/ns-1/deploy-1",
			want:  threeNS + ";deployments.apps/ns-1/deploy-1",
		},
		"excluded namespaces given as a pattern only": {
			spec:  Spec{ExcludedNamespaces: []string{"ns-[12]"}},
			items: threePods + ";" + threeNS,
			want:  "pods/ns-3/pod-1;namespaces/ns-3",
		},
		"a pattern that matches no namespace does not select the cluster": {
			spec:  Spec{IncludedNamespaces: []string{"invalid*"}},
			items: threeNS + ";" + twoPVs,
		},
		"an opted-out namespace stays out although its labels match": {
			spec:  Spec{OptedOutNamespaces: []string{"ns-1"}, LabelSelector: ab},
			items: "namespaces/ns-1 a=b,velero.io/exclude-from-backup=true;pods/ns-1/pod-1 a=b;pods/ns-2/pod-1 a=b;namespaces/ns-2",
			want:  "pods/ns-2/pod-1;namespaces/ns-2",
		},
		"no namespace at all": {
			spec:  Spec{IncludedNamespaces: []string{""}, IncludeClusterResources: &yes},
			items: threePods + ";" + threeNS + ";" + twoPVs,
			want:  twoPVs,
		},
		"includeClusterResources=false leaves out Namespace objects too": {
			spec:  Spec{IncludeClusterResources: &no},
			items: threePods + ";" + threeNS,
			want:  threePods,
		},
		"records of backup runs and volume snapshots": {
			spec: Spec{IncludedResources: []string{"*"}, IncludeClusterResources: &yes},
			items: "backups.velero.io/velero/b;hookruns.grapnel.dev/grapnel/h;volumesnapshots.snapshot.storage.k8s.io/foo/s;" +
				"volumesnapshotcontents.snapshot.storage.k8s.io/c;volumegroupsnapshots.groupsnapshot.storage.k8s.io/foo/g;secrets/foo/s",
			want: "secrets/foo/s",
		},
		"asking for volume snapshots only does not select everything": {
			spec:  Spec{IncludedResources: []string{"volumesnapshots.snapshot.storage.k8s.io"}},
			items: "volumesnapshots.snapshot.storage.k8s.io/foo/s;secrets/foo/s",
		},
		"a list of the wrong scope does not select everything": {
			spec:  Spec{IncludedNamespaceScopedResources: []string{"nodes"}},
			items: twoOfEach + ";nodes/n",
		},
		"patterns for resources": {
			spec:  Spec{IncludedResources: []string{"*.apps", "p?ds"}},
			items: twoOfEach + ";secrets/foo/s;" + twoPVs,
			want:  twoOfEach,
		},
	} {
		t.Run(name, func(t *testing.T) {
			items := parseItems(tc.items)
			s, err := Compile(tc.spec, testCluster, namespacesOf(items))
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			var want []string
			for _, item := range parseItems(tc.want) {
				want = append(want, item.String())
			}
			if diff := cmp.Diff(want, collect(s, items)); diff != "" {
				t.Errorf("archived items (-want +got):\n%s", diff)
			}
		})
	}
}

type testItem struct {
	gr              schema.GroupResource
	namespace, name string
	labels          map[string]string
}

func (i testItem) String() string {
	if i.namespace == "" {
		return i.gr.String() + "/" + i.name
	}
	return i.gr.String() + "/" + i.namespace + "/" + i.name
}

func parseItems(text string) []testItem {
	var items []testItem
	for _, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' }) {
		id, labelText, _ := strings.Cut(entry, " ")
		parts := strings.Split(id, "/")
		item := testItem{gr: schema.ParseGroupResource(parts[0]), name: parts[len(parts)-1]}
		if len(parts) == 3 {
			item.namespace = parts[1]
		}
		for _, pair := range strings.FieldsFunc(labelText, func(r rune) bool { return r == ',' }) {
			key, value, _ := strings.Cut(pair, "=")
			if item.labels == nil {
				item.labels = map[string]string{}
			}
			item.labels[key] = value
		}
		items = append(items, item)
	}
	return items
}

func namespacesOf(items []testItem) []string {
	var names []string
	for _, item := range items {
		name := item.namespace
		if item.gr == namespaceResource {
			name = item.name
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// collect applies a Selection like a backup.
func collect(s *Selection, items []testItem) []string {
	var names []string
	for _, item := range items {
		if item.gr == namespaceResource {
			hasItems := slices.ContainsFunc(items, func(other testItem) bool {
				return other.namespace == item.name && selected(s, other)
			})
			if s.ShouldArchiveNamespace(NamespaceObject{Name: item.name, Labels: item.labels, Active: true, HasItems: hasItems}) {
				names = append(names, item.String())
			}
		} else if selected(s, item) {
			names = append(names, item.String())
		}
	}
	return names
}

func selected(s *Selection, item testItem) bool {
	return s.ResourceInclusion(item.gr, item.namespace != "") == Included &&
		(item.namespace == "" || s.IncludesNamespace(item.namespace)) &&
		s.MatchesLabels(item.labels) && !IsExcludedByLabel(item.labels)
}
