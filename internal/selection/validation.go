// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/glob"
)

// FieldError is an error in one field of a Spec.
type FieldError struct {
	// Field is the path of the field, for example
	// "spec.includedNamespaces[2]".
	Field string
	// Problem is what is wrong and how to fix it.
	Problem string
}

// Error returns the field and the problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// fieldErrors collects FieldErrors.
type fieldErrors []error

func (p *fieldErrors) addError(field, format string, args ...any) {
	*p = append(*p, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// Validate reports all errors in a Spec that can be found without a cluster; every error is
// a *FieldError. A Spec without errors compiles. Validate rejects what Velero rejects, and
// also what Velero accepts but can never work as intended, such as an invalid pattern or
// label selector.
func Validate(spec Spec) []error {
	var p fieldErrors
	p.validateNamespaces(spec)
	if spec.usesOldFilters() && spec.usesScopedFilters() {
		p.addError(joinUsedFields(spec.oldFilterFields()), "cannot be combined with %s; use either the first or the second set of fields",
			joinUsedFields(spec.scopedFilterFields()))
	}
	p.validateResources(spec)
	p.validateLabelSelectors(spec)
	p.validateOrderedResources(spec.OrderedResources)
	return p
}

type usedField struct {
	name string
	used bool
}

func (s Spec) oldFilterFields() []usedField {
	return []usedField{
		{"spec.includedResources", len(s.IncludedResources) > 0},
		{"spec.excludedResources", len(s.ExcludedResources) > 0},
		{"spec.includeClusterResources", s.IncludeClusterResources != nil},
	}
}

func (s Spec) scopedFilterFields() []usedField {
	return []usedField{
		{"spec.includedClusterScopedResources", len(s.IncludedClusterScopedResources) > 0},
		{"spec.excludedClusterScopedResources", len(s.ExcludedClusterScopedResources) > 0},
		{"spec.includedNamespaceScopedResources", len(s.IncludedNamespaceScopedResources) > 0},
		{"spec.excludedNamespaceScopedResources", len(s.ExcludedNamespaceScopedResources) > 0},
	}
}

func joinUsedFields(fields []usedField) string {
	var names []string
	for _, f := range fields {
		if f.used {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

func (p *fieldErrors) validateNamespaces(spec Spec) {
	lists := listPair{
		"spec.includedNamespaces", spec.IncludedNamespaces,
		"spec.excludedNamespaces", spec.ExcludedNamespaces,
	}
	p.validateStarIsAlone(lists.includeField, lists.include)
	p.validateNoStar(lists.excludeField, lists.exclude)
	p.validateDisjoint(lists)
	p.validateEntries(lists, namespaceProblem)
}

func (p *fieldErrors) validateResources(spec Spec) {
	old := listPair{
		"spec.includedResources", spec.IncludedResources,
		"spec.excludedResources", spec.ExcludedResources,
	}
	p.validateStarIsAlone(old.includeField, old.include)
	p.validateNoStar(old.excludeField, old.exclude)
	p.validateDisjoint(old)
	p.validateEntries(old, resourceProblem)
	for _, lists := range []listPair{{
		"spec.includedClusterScopedResources", spec.IncludedClusterScopedResources,
		"spec.excludedClusterScopedResources", spec.ExcludedClusterScopedResources,
	}, {
		"spec.includedNamespaceScopedResources", spec.IncludedNamespaceScopedResources,
		"spec.excludedNamespaceScopedResources", spec.ExcludedNamespaceScopedResources,
	}} {
		p.validateStarIsAlone(lists.includeField, lists.include)
		p.validateStarIsAlone(lists.excludeField, lists.exclude)
		if i := slices.Index(lists.exclude, matchAll); i >= 0 && len(lists.include) > 0 {
			p.addError(fmt.Sprintf("%s[%d]", lists.excludeField, i), `"*" excludes everything in %s; remove one of the two`,
				lists.includeField)
		}
		p.validateDisjoint(lists)
		p.validateEntries(lists, resourceProblem)
	}
}

// validateStarIsAlone rejects "*" with other entries.
func (p *fieldErrors) validateStarIsAlone(field string, list []string) {
	i := slices.Index(list, matchAll)
	if i >= 0 && slices.ContainsFunc(list, func(s string) bool { return s != matchAll }) {
		p.addError(fmt.Sprintf("%s[%d]", field, i), `"*" stands for everything and must be the only entry; `+
			"remove it or the other entries")
	}
}

func (p *fieldErrors) validateNoStar(field string, list []string) {
	if i := slices.Index(list, matchAll); i >= 0 {
		p.addError(fmt.Sprintf("%s[%d]", field, i), `"*" would exclude everything; name what to exclude`)
	}
}

func (p *fieldErrors) validateDisjoint(lists listPair) {
	seen := map[string]bool{}
	for i, entry := range lists.exclude {
		at := slices.Index(lists.include, entry)
		if at < 0 || seen[entry] {
			continue
		}
		seen[entry] = true
		p.addError(fmt.Sprintf("%s[%d]", lists.excludeField, i), "%q is also in %s[%d]; remove it from one of them",
			entry, lists.includeField, at)
	}
}

func (p *fieldErrors) validateEntries(lists listPair, problem func(string) string) {
	check := func(field string, list []string) {
		for i, entry := range list {
			if text := problem(entry); text != "" {
				p.addError(fmt.Sprintf("%s[%d]", field, i), "%q %s", entry, text)
			}
		}
	}
	check(lists.includeField, lists.include)
	check(lists.excludeField, lists.exclude)
}

// namespaceProblem describes what is wrong with a namespace name or pattern. The syntax of
// patterns is Velero's: *, ? and [abc], no alternatives, no negation.
func namespaceProblem(entry string) string {
	if entry == matchAll || entry == "" {
		return ""
	}
	if strings.ContainsAny(entry, "|()!{},") {
		return "contains one of | ( ) ! { } and comma, which namespace patterns do not support; " +
			"use *, ? or [abc] and one entry per pattern"
	}
	if strings.Contains(entry, "**") {
		return "contains **; a single * matches any sequence"
	}
	if text := bracketProblem(entry); text != "" {
		return text
	}
	// Apart from their special characters, patterns may contain the same characters as
	// names.
	stand := strings.NewReplacer("*", "x", "?", "x", "[", "x", "]", "x").Replace(entry)
	if texts := validation.IsDNS1123Label(stand); len(texts) > 0 {
		return "is not a namespace name: " + strings.Join(texts, "; ")
	}
	if _, err := glob.Compile(entry); err != nil {
		return fmt.Sprintf("is not a valid pattern: %v", err)
	}
	return ""
}

// bracketProblem checks that every [ has its ] and something in between. A second [ before
// the ] is part of the set.
func bracketProblem(entry string) string {
	for rest := entry; ; {
		at := strings.IndexAny(rest, "[]")
		if at < 0 {
			return ""
		}
		if rest[at] == ']' {
			return "has a ] without a ["
		}
		set, after, closed := strings.Cut(rest[at+1:], "]")
		if !closed {
			return "has a [ without a ]"
		}
		if set == "" {
			return "has an empty set []"
		}
		rest = after
	}
}

// resourceProblem describes what is wrong with a resource name or pattern.
func resourceProblem(entry string) string {
	switch {
	case entry == "":
		return "is empty; name a resource or remove the entry"
	case strings.ContainsAny(entry, " \t\r\n"):
		return "contains white space"
	case strings.Contains(entry, "/"):
		return "contains a slash; name resources without version and subresource, for example deployments.apps"
	case strings.Contains(entry, ",") && !strings.Contains(entry, "{"):
		return "contains a comma; use one entry per resource"
	}
	if _, err := glob.Compile(entry); err != nil {
		return fmt.Sprintf("is not a valid pattern: %v", err)
	}
	return ""
}

func (p *fieldErrors) validateLabelSelectors(spec Spec) {
	if spec.LabelSelector != nil && len(spec.OrLabelSelectors) > 0 {
		p.addError("spec.orLabelSelectors", "cannot be combined with spec.labelSelector; set only one of them")
	}
	if spec.LabelSelector != nil {
		p.validateLabelSelector("spec.labelSelector", spec.LabelSelector)
	}
	for i, selector := range spec.OrLabelSelectors {
		field := fmt.Sprintf("spec.orLabelSelectors[%d]", i)
		if selector == nil {
			p.addError(field, "is null; give it matchLabels or matchExpressions, or remove it")
			continue
		}
		p.validateLabelSelector(field, selector)
	}
}

func (p *fieldErrors) validateLabelSelector(field string, selector *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		p.addError(field, "is not a valid label selector: %v", err)
	}
}

func (p *fieldErrors) validateOrderedResources(ordered map[string]string) {
	for _, key := range sortedKeys(ordered) {
		field := "spec.orderedResources[" + key + "]"
		if text := resourceProblem(key); text != "" {
			p.addError(field, "the key %q %s", key, text)
		} else if isPattern(key) {
			p.addError(field, "the key %q is a pattern; name one resource", key)
		}
		if strings.TrimSpace(ordered[key]) == "" {
			continue
		}
		for entry := range strings.SplitSeq(ordered[key], ",") {
			if _, err := parseOrderedItem(strings.TrimSpace(entry)); err != nil {
				p.addError(field, "%v", err)
			}
		}
	}
}

var errOrderedItem = errors.New(`use "namespace/name", or "name" for cluster-scoped resources, separated by commas`)

func parseOrderedItem(entry string) (types.NamespacedName, error) {
	namespace, name, namespaced := strings.Cut(entry, "/")
	if !namespaced {
		namespace, name = "", entry
	} else if len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q has no valid namespace: %w", entry, errOrderedItem)
	}
	if name == "" || strings.ContainsAny(name, " \t\r\n") || len(content.IsPathSegmentName(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q has no valid name: %w", entry, errOrderedItem)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
