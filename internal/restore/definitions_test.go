// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// widgets returns a definition of widgets in a group. The first version is the
// stored one.
func widgets(t testing.TB, group string, versions ...string) *unstructured.Unstructured {
	t.Helper()
	var list []string
	for i, v := range versions {
		list = append(list, fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object",
			"x-kubernetes-preserve-unknown-fields":true}}}`, v, i == 0))
	}
	return obj(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets."+group, fmt.Sprintf(`{"spec":{"group":%q,
		"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","shortNames":["wd"]},"versions":[%s]}}`,
		group, strings.Join(list, ",")))
}

func widget(t testing.TB, group, version, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return obj(t, group+"/"+version, "Widget", namespace, name, fmt.Sprintf(`{"spec":{"from":%q}}`, version))
}

func TestRestoreCRDs(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "definitions", "first.example.org"
	objects := []*unstructured.Unstructured{widgets(t, group, "v1")}
	for i := range 30 {
		objects = append(objects, widget(t, group, "v1", ns, fmt.Sprintf("w-%d", i)))
	}
	request := restore.Request{Archive: spool(t, objects), RestoreUID: "u"}
	dry := request
	dry.DryRun = true
	planned := c.run(dry)
	wantCounts(t, planned, map[restore.Outcome]int{restore.Created: len(objects) + 1})
	if writes := c.wire.writes(); len(writes) > 0 || c.has(objects[0]) {
		t.Errorf("a dry run wrote %v", writes)
	}

	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) + 1})
	wantMessages(t, result)
	for _, o := range objects {
		c.get(o)
	}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: len(objects) + 1})
}

// TestRestoreCRDs_NamespaceSelection selects a namespace: definitions are cluster-scoped, and still
// needed. A restore that continues after an interruption recognizes its own.
func TestRestoreCRDs_NamespaceSelection(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "along"
	s := spool(t, []*unstructured.Unstructured{
		widgets(t, "along.example.org", "v1"), widget(t, "along.example.org", "v1", ns, "w"),
		widgets(t, "elsewhere.example.org", "v1"), widget(t, "elsewhere.example.org", "v1", "along-else", "w"),
		widgets(t, "unused.example.org", "v1"),
	})
	request := restore.Request{Archive: s, Selection: selection.Spec{IncludedNamespaces: []string{ns}}, RestoreUID: "u"}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
	wantMessages(t, result)
	c.get(widget(t, "along.example.org", "v1", ns, "w"))
	if diff := cmp.Diff(listOf(result), listOf(c.run(request))); diff != "" {
		t.Errorf("the continued restore reports something else (-want +got):\n%s", diff)
	}
	request.RestoreUID = "another"
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Unchanged: 1})
}

func TestRestoreCRDs_NamesNotAccepted(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "taken-names", "taken.example.org"
	taken := widgets(t, group, "v1")
	taken.SetName("gadgets." + group)
	if err := unstructured.SetNestedField(taken.Object, "gadgets", "spec", "names", "plural"); err != nil {
		t.Fatal(err)
	}
	c.create(taken)
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{
		widgets(t, group, "v1"), widget(t, group, "v1", ns, "w"), configMap(t, ns, "other", "x"),
	})})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3, restore.Failed: 1})
	wantMessages(t, result,
		"error cluster: |widgets."+group+"|names are not accepted|already in use",
		"error run: 1 object of widgets."+group+" is not restored")
}

// TestVersions restores one archive with two versions, of which v1 was preferred, to
// clusters with other versions.
func TestVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		served   []string
		user     []string
		archived []string // the first is the preferred one
		want     string   // empty: nothing is restored
		rule     version.Rule
	}{
		"user priority":    {[]string{"v1", "v2beta1"}, []string{"v3", "v2beta1"}, []string{"v1", "v2beta1"}, "v2beta1", version.UserPriority},
		"target preferred": {[]string{"v2beta1", "v2"}, nil, []string{"v1", "v2"}, "v2", version.TargetPreferred},
		"source preferred": {[]string{"v1", "v2"}, nil, []string{"v1", "v1beta1"}, "v1", version.SourcePreferred},
		"common version":   {[]string{"v3", "v2beta1"}, nil, []string{"v1", "v2beta1"}, "v2beta1", version.CommonVersion},
		"none in common":   {[]string{"v3"}, nil, []string{"v1", "v2"}, "", version.Fallback},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			slug := strings.ReplaceAll(name, " ", "-")
			group, ns := slug+".example.org", "versions-"+slug
			c.create(widgets(t, group, tc.served...))
			eventually(t, "the definition is served", func() bool {
				_, err := c.client.Resource(schema.GroupVersionResource{Group: group, Version: tc.served[len(tc.served)-1], Resource: "widgets"}).
					List(t.Context(), metav1.ListOptions{})
				return err == nil
			})
			s := spool(t, []*unstructured.Unstructured{
				widget(t, group, tc.archived[0], ns, "w"), widget(t, group, tc.archived[1], ns, "w"),
			}, schema.GroupVersion{Group: group, Version: tc.archived[1]})
			request := restore.Request{
				Archive: s, UseVersions: true, RestoreUID: "u",
				Priorities: version.Priorities{"widgets." + group: tc.user},
			}
			result := c.run(request)
			choice := result.Choices["widgets."+group]
			if choice.Rule != tc.rule || choice.Reason == "" {
				t.Errorf("the choice is %+v, want rule %s", choice, tc.rule)
			}
			if tc.want == "" {
				wantCounts(t, result, map[restore.Outcome]int{restore.Created: 1, restore.Failed: 1})
				wantMessages(t, result, "error run: 1 object of widgets."+group+" is not restored: |does not serve version v1")
				return
			}
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
			wantMessages(t, result)
			got := c.get(widget(t, group, tc.served[0], ns, "w"))
			if from, _, _ := unstructured.NestedString(got.Object, "spec", "from"); from != tc.want {
				t.Errorf("restored from version %q, want %q", from, tc.want)
			}
			if posts := c.wire.requests("POST", "/"+tc.want+"/namespaces/"+ns+"/widgets"); len(posts) != 1 {
				t.Errorf("POSTs in version %s: %v", tc.want, posts)
			}
			wantCounts(t, c.run(restore.Request{Archive: s, UseVersions: true, Priorities: request.Priorities}),
				map[restore.Outcome]int{restore.Unchanged: 1})

			// Without the choice, it is the backup's preferred version or none.
			plain := c.run(restore.Request{Archive: s})
			if strings.Join(tc.served, " ") == "v1 v2" || tc.served[0] == "v1" {
				return
			}
			wantMessages(t, plain, "error run: 1 object of widgets."+group+" is not restored: |does not serve version|restore with the choice")
		})
	}
}

// TestRestoreCRDs_NotServed restores objects that their definitions do not serve. They fail with a helpful reason, and a dry run
// predicts that.
func TestRestoreCRDs_NotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		definition func(group string) *unstructured.Unstructured
		selection  selection.Spec
		created    int
		message    string
	}{
		"another-version": {
			definition: func(group string) *unstructured.Unstructured { return widgets(t, group, "v2") },
			created:    2, message: "error run: 1 object of |the cluster does not serve version v1 of them",
		},
		"not-selected": {
			definition: func(group string) *unstructured.Unstructured { return widgets(t, group, "v1") },
			selection:  selection.Spec{IncludedResources: []string{"widgets.not-selected.example.org"}},
			message:    "error run: 1 object of |are not selected: include customresourcedefinitions",
		},
		"another-scope": {
			definition: func(group string) *unstructured.Unstructured {
				definition := widgets(t, group, "v1")
				_ = unstructured.SetNestedField(definition.Object, "Cluster", "spec", "scope")
				return definition
			},
			created: 2, message: `error unserved-another-scope: widgets.another-scope.example.org "unserved-another-scope/w": it has a namespace`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			group, ns := name+".example.org", "unserved-"+name
			request := restore.Request{
				Archive:   spool(t, []*unstructured.Unstructured{tc.definition(group), widget(t, group, "v1", ns, "w")}),
				Selection: tc.selection, RestoreUID: "u",
			}
			want := map[restore.Outcome]int{restore.Failed: 1}
			if tc.created > 0 {
				want[restore.Created] = tc.created
			}
			for _, dry := range []bool{name != "another-scope", false} {
				request.DryRun = dry
				result := c.run(request)
				wantCounts(t, result, want)
				wantMessages(t, result, tc.message)
			}
		})
	}
}
