// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// known resolves a few names, as discovery does.
type known map[string]string

func (k known) Resolve(name string) (schema.GroupResource, bool) {
	full, ok := k[name]
	return schema.ParseGroupResource(full), ok
}

var names = known{
	"pods": "pods", "po": "pods", "Pod": "pods", "pod": "pods", "persistentvolumes": "persistentvolumes",
	"deploy": "deployments.apps", "deployments": "deployments.apps", "deployments.apps": "deployments.apps",
}

func TestFilter_MatchesObject(t *testing.T) {
	t.Parallel()
	type object struct{ resource, namespace, labels string }
	pod := object{"pods", "shop", "app=web"}
	for name, tc := range map[string]struct {
		selector item.Selector
		object   object
		want     bool
	}{
		"everything":                       {item.Selector{}, pod, true},
		"everything, cluster-scoped":       {item.Selector{}, object{"persistentvolumes", "", ""}, true},
		"a short name":                     {item.Selector{IncludedResources: []string{"po"}}, pod, true},
		"another resource":                 {item.Selector{IncludedResources: []string{"deploy"}}, pod, false},
		"a name without its group":         {item.Selector{IncludedResources: []string{"deployments"}}, object{"deployments.apps", "shop", ""}, true},
		"all resources by a star":          {item.Selector{IncludedResources: []string{"*"}}, pod, true},
		"a star with an exclusion":         {item.Selector{IncludedResources: []string{"*"}, ExcludedResources: []string{"po"}}, pod, false},
		"only an unknown resource":         {item.Selector{IncludedResources: []string{"unheard.of"}}, pod, false},
		"a resource served later":          {item.Selector{IncludedResources: []string{"unheard.of"}}, object{"unheard.of", "shop", ""}, true},
		"a namespace":                      {item.Selector{IncludedNamespaces: []string{"shop"}}, pod, true},
		"another namespace":                {item.Selector{IncludedNamespaces: []string{"office"}}, pod, false},
		"a pattern of namespaces":          {item.Selector{IncludedNamespaces: []string{"sh*"}}, pod, true},
		"an excluded pattern":              {item.Selector{ExcludedNamespaces: []string{"sh?p"}}, pod, false},
		"cluster-scoped, namespaces named": {item.Selector{IncludedNamespaces: []string{"*", "shop"}}, object{"persistentvolumes", "", ""}, false},
		"cluster-scoped, all namespaces":   {item.Selector{IncludedNamespaces: []string{"*"}}, object{"persistentvolumes", "", ""}, true},
		"cluster-scoped, one is excluded":  {item.Selector{ExcludedNamespaces: []string{"x"}}, object{"persistentvolumes", "", ""}, false},
		"its labels":                       {item.Selector{LabelSelector: "app=web,tier!=cache"}, pod, true},
		"not its labels":                   {item.Selector{LabelSelector: "app in (db)"}, pod, false},
		"labels of an object that has none": {
			item.Selector{LabelSelector: "!app"}, object{"pods", "shop", ""}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filter, err := NewFilter(tc.selector, names)
			if err != nil {
				t.Fatal(err)
			}
			got := filter.MatchesResource(schema.ParseGroupResource(tc.object.resource)) && filter.MatchesObject(tc.object.namespace, func() map[string]string {
				key, value, ok := strings.Cut(tc.object.labels, "=")
				if !ok {
					return nil
				}
				return map[string]string{key: value}
			})
			if got != tc.want {
				t.Errorf("shown: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFilter_MatchesObjectWithoutLabels(t *testing.T) {
	t.Parallel()
	filter, err := NewFilter(item.Selector{IncludedNamespaces: []string{"shop"}}, names)
	if err != nil {
		t.Fatal(err)
	}
	if !filter.MatchesObject("shop", func() map[string]string { t.Error("labels were decoded"); return nil }) {
		t.Error("object was not shown")
	}
}

func TestNewFilter_InvalidSelector(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector item.Selector
		want     string
	}{
		"label selector": {item.Selector{LabelSelector: "app=(web"}, `the label selector "app=(web" of its AppliesTo cannot be used`},
		"namespaces":     {item.Selector{IncludedNamespaces: []string{"a[b"}}, `includedNamespaces of its AppliesTo cannot be used: reading pattern "a[b"`},
		"resources":      {item.Selector{ExcludedResources: []string{"a[b"}}, `excludedResources of its AppliesTo cannot be used: reading pattern "a[b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewFilter(tc.selector, names)
			wantError(t, err, tc.want)
		})
	}
}

// wantError fails unless err contains want; an empty want means no error.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("no error, want one that says %q", want)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("error %q does not say %q", err, want)
	}
}
