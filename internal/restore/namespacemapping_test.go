// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// ofTeam creates a Namespace with a distinguishing label.
func ofTeam(t testing.TB, name, team string) *unstructured.Unstructured {
	t.Helper()
	return obj(t, "v1", "Namespace", "", name, fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, team))
}

// binding binds the ServiceAccounts of a namespace in each way to name them.
func binding(t testing.TB, kind, namespace, name, subject string) *unstructured.Unstructured {
	t.Helper()
	return obj(t, "rbac.authorization.k8s.io/v1", kind, namespace, name, fmt.Sprintf(`{
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[
			{"kind":"ServiceAccount","name":"robot","namespace":%[1]q},
			{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"system:serviceaccount:%[1]s:robot"},
			{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:serviceaccounts:%[1]s"}]}`, subject))
}

// TestNamespaceMapping_Cycle maps each of a cycle of namespaces to the next one.
func TestNamespaceMapping_Cycle(t *testing.T) {
	for name, ring := range map[string][]string{
		"two": {"swap-a", "swap-b"}, "three": {"ring-a", "ring-b", "ring-c"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			mapping := map[string]string{}
			var objects []*unstructured.Unstructured
			for i, ns := range ring {
				next := ring[(i+1)%len(ring)]
				mapping[ns] = next
				objects = append(objects, ofTeam(t, ns, ns), configMap(t, ns, "settings", "from "+ns),
					binding(t, "RoleBinding", ns, "bind", next), binding(t, "ClusterRoleBinding", "", "bind-"+ns, ns))
			}
			request := restore.Request{Archive: spool(t, objects), NamespaceMapping: mapping, RestoreUID: "u"}
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects)})
			wantMessages(t, result)
			for _, ns := range ring {
				now, next := mapping[ns], mapping[mapping[ns]]
				if team := c.get(ofTeam(t, now, "")).GetLabels()["team"]; team != ns {
					t.Errorf("namespace %s is that of team %q, want %q", now, team, ns)
				}
				if got := data(c.get(configMap(t, now, "settings", "")))["key"]; got != "from "+ns {
					t.Errorf("namespace %s has the settings %q, want those from %s", now, got, ns)
				}
				for _, want := range []*unstructured.Unstructured{
					binding(t, "RoleBinding", now, "bind", next), binding(t, "ClusterRoleBinding", "", "bind-"+ns, now),
				} {
					if diff := cmp.Diff(want.Object["subjects"], c.get(want).Object["subjects"]); diff != "" {
						t.Errorf("subjects of %s %s (-want +got):\n%s", want.GetKind(), want.GetName(), diff)
					}
				}
			}
			request.RestoreUID = "v"
			again := c.run(request)
			wantCounts(t, again, map[restore.Outcome]int{restore.Unchanged: len(objects)})
		})
	}
}

// TestNamespaceMapping_SourceNamespace restores a namespace from its source and not from another one that has the new name in the
// backup.
func TestNamespaceMapping_SourceNamespace(t *testing.T) {
	for slug, spec := range map[string]selection.Spec{
		"name":  {IncludedNamespaces: []string{"source-name"}},
		"label": {LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "me"}}},
	} {
		t.Run("selected by "+slug, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			another, source := "another-"+slug, "source-"+slug // the other one comes first
			picked := configMap(t, source, "settings", "x")
			picked.SetLabels(map[string]string{"pick": "me"})
			var seen collector
			result := c.run(restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{
					ofTeam(t, another, "another"), ofTeam(t, source, "source"), configMap(t, another, "other", "x"), picked,
				}),
				Selection: spec, NamespaceMapping: map[string]string{source: another}, Progress: seen.progress,
			})
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
			if team := c.get(ofTeam(t, another, "")).GetLabels()["team"]; team != "source" {
				t.Errorf("the namespace is that of team %q", team)
			}
			if seen.done != 2 || seen.total != 2 {
				t.Errorf("progress ended at %d of %d", seen.done, seen.total)
			}
		})
	}
}
