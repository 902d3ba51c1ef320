// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// matchAllEntry is the entry of a list that matches everything.
const matchAllEntry = "*"

// Filter decides which objects an action gets, from the answer of the action to AppliesTo.
// It does not change, so it may be used concurrently. The zero Filter matches every object.
type Filter struct {
	resources, namespaces includeExclude
	labels                labels.Selector
}

// includeExclude are the included and the excluded entries. Exclusion takes precedence, and
// no entry means all.
type includeExclude struct{ include, exclude selection.Patterns }

func (l *includeExclude) matchesName(name string) bool {
	return !l.exclude.Matches(name) && (l.include.IsEmpty() || l.include.Matches(name))
}

// NewFilter returns the Filter of a selector. The names of resources may have any form that
// the cluster resolves. An unknown name is kept, so that a list of unknown names is not an
// empty list, which means all. The error describes what is wrong with the selector and how
// to fix it.
func NewFilter(sel item.Selector, names itemaction.ResourceResolver) (Filter, error) {
	var f Filter
	for _, list := range []struct {
		what    string
		entries []string
		out     *selection.Patterns
	}{
		{"includedNamespaces", sel.IncludedNamespaces, &f.namespaces.include},
		{"excludedNamespaces", sel.ExcludedNamespaces, &f.namespaces.exclude},
		{"includedResources", resolveResourceNames(sel.IncludedResources, names), &f.resources.include},
		{"excludedResources", resolveResourceNames(sel.ExcludedResources, names), &f.resources.exclude},
	} {
		var err error
		if *list.out, err = selection.NewPatterns(list.entries); err != nil {
			return Filter{}, fmt.Errorf("%s of its AppliesTo cannot be used: %w; fix the plugin", list.what, err)
		}
	}
	if sel.LabelSelector == "" {
		return f, nil
	}
	selector, err := labels.Parse(sel.LabelSelector)
	if err != nil {
		return Filter{}, fmt.Errorf("the label selector %q of its AppliesTo cannot be used: %w; "+
			"the plugin has to return one in the form of kubectl, such as app=shop,tier!=cache", sel.LabelSelector, err)
	}
	f.labels = selector
	return f, nil
}

// resolveResourceNames returns the full names of resources.
func resolveResourceNames(entries []string, names itemaction.ResourceResolver) []string {
	out := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry != matchAllEntry {
			if gr, ok := names.Resolve(entry); ok {
				entry = gr.String()
			}
		}
		out = append(out, entry)
	}
	return out
}

// MatchesResource reports whether the action may handle objects of a resource.
func (f *Filter) MatchesResource(resource schema.GroupResource) bool {
	return f.resources.matchesName(resource.String())
}

// MatchesObject reports whether the action handles an object of such a resource. The
// namespace is empty for a cluster-scoped object, which an action that restricts namespaces
// does not handle. It calls set, which returns the labels, only if they matter.
func (f *Filter) MatchesObject(namespace string, set func() map[string]string) bool {
	if namespace == "" {
		if !f.namespaces.exclude.IsEmpty() || !f.namespaces.include.IsUnrestricted() {
			return false
		}
	} else if !f.namespaces.matchesName(namespace) {
		return false
	}
	return f.labels == nil || f.labels.Empty() || f.labels.Matches(labels.Set(set()))
}
