// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"
)

// namespaceFilter decides about namespaces. Include patterns are expanded when
// the backup starts: a namespace that appears later would be archived in part.
// Exclude patterns stay patterns, so that they hold for later ones as well.
type namespaceFilter struct {
	include  *matcher
	exclude  *matcher
	expanded bool     // include holds what patterns expanded to, maybe nothing
	existing []string // sorted
	whole    bool     // every namespace is in and none is excluded
}

func (f *namespaceFilter) includes(name string) bool {
	if f.exclude.matches(name) {
		return false
	}
	if f.include.empty() {
		return !f.expanded
	}
	return f.include.matches(name)
}

func (s *Selection) compileNamespaces(spec Spec, existing []string) error {
	f := &s.namespaces
	f.existing = slices.Clone(existing)
	slices.Sort(f.existing)
	f.existing = slices.Compact(f.existing)

	var err error
	if f.exclude, err = newMatcher(slices.Concat(spec.ExcludedNamespaces, spec.OptedOutNamespaces)); err != nil {
		return fmt.Errorf("compiling spec.excludedNamespaces: %w", err)
	}
	if f.include, err = newMatcher(nil); err != nil {
		return err
	}
	for i, entry := range spec.IncludedNamespaces {
		field := fmt.Sprintf("spec.includedNamespaces[%d]", i)
		if err := s.includeNamespace(field, entry, spec.OptedOutNamespaces); err != nil {
			return err
		}
	}
	f.whole = f.includesEveryExisting() && f.excludesNothing()
	if spec.FromBackup {
		// What is restored must not depend on what else was backed up.
		f.whole = f.whole && f.include.onlyAll()
	}
	return nil
}

// excludesNothing reports whether the exclude list restricts nothing. Beside an
// include list of names Velero expands exclude patterns, so that one without a
// match counts for nothing; beside "*" it stays a restriction.
func (f *namespaceFilter) excludesNothing() bool {
	if f.include.onlyAll() {
		return f.exclude.empty()
	}
	return len(f.exclude.names) == 0 && !slices.ContainsFunc(f.existing, f.exclude.matches)
}

// includesEveryExisting reports whether the include list restricts nothing:
// it is empty, it is "*", or it amounts to exactly the namespaces that exist.
func (f *namespaceFilter) includesEveryExisting() bool {
	if f.include.onlyAll() {
		return !f.expanded || f.include.all
	}
	return slices.Equal(sortedKeys(f.include.names), f.existing)
}

func (s *Selection) includeNamespace(field, entry string, optedOut []string) error {
	f := &s.namespaces
	if !isPattern(entry) || entry == everything {
		s.warnAboutNamespace(field, entry, optedOut)
		return f.include.add(entry)
	}
	f.expanded = true
	pattern, err := newMatcher([]string{entry})
	if err != nil {
		return err
	}
	matched, excluded := 0, 0
	for _, name := range f.existing {
		if !pattern.matches(name) {
			continue
		}
		matched++
		if f.exclude.matches(name) {
			excluded++
		}
		f.include.names[name] = struct{}{}
	}
	switch matched {
	case 0:
		s.warn(field, s.ofBackup("no namespace matches the pattern %q", "no namespace of the backup matches the pattern %q"), entry)
	case excluded:
		s.warn(field, "every namespace that matches the pattern %q is excluded", entry)
	}
	return nil
}

func (s *Selection) warnAboutNamespace(field, name string, optedOut []string) {
	if name == everything || name == "" {
		return
	}
	_, exists := slices.BinarySearch(s.namespaces.existing, name)
	switch {
	case slices.Contains(optedOut, name):
		s.warn(field, "namespace %q carries the label %s or %s, which keeps it out of every backup",
			name, GrapnelExcludeLabel, VeleroExcludeLabel)
	case s.namespaces.exclude.matches(name):
		s.warn(field, "namespace %q is excluded", name)
	case !exists:
		s.warn(field, s.ofBackup("namespace %q does not exist", "the backup has nothing of namespace %q"), name)
	}
}

// warnAboutOptedOut says why a backup without filters leaves out cluster-scoped
// resources: somebody put an exclusion label on a namespace.
func (s *Selection) warnAboutOptedOut(spec Spec) {
	filtered := len(spec.ExcludedNamespaces) > 0 || !s.namespaces.include.onlyAll() || s.namespaces.expanded ||
		spec.IncludeClusterResources != nil || len(spec.IncludedResources) > 0 || spec.usesScopedFilters()
	if len(spec.OptedOutNamespaces) == 0 || filtered {
		return
	}
	s.warn("spec.includeClusterResources", "cluster-scoped resources are archived only where included items need them, "+
		"because namespaces carry the label %s or %s (%s); set it to true to archive all of them",
		GrapnelExcludeLabel, VeleroExcludeLabel, strings.Join(spec.OptedOutNamespaces, ", "))
}

// Namespaces returns the existing namespaces that are included, sorted, and
// whether there is no namespace filter at all. If all is true, names still
// lists them, but namespaces that appear later are included as well.
func (s *Selection) Namespaces() (names []string, all bool) {
	for _, name := range s.namespaces.existing {
		if s.namespaces.includes(name) {
			names = append(names, name)
		}
	}
	return names, s.namespaces.whole && s.namespaces.include.onlyAll()
}

// IncludesNamespace reports whether namespaced items in namespace ns are
// included. It is cheap enough to be called for every item. For cluster-scoped
// items ask Resource instead.
func (s *Selection) IncludesNamespace(ns string) bool {
	return s.namespaces.includes(ns)
}

// NamespaceObject describes a Namespace object to ArchivesNamespace.
type NamespaceObject struct {
	// Name is the name of the namespace.
	Name string
	// Labels are the labels of the Namespace object.
	Labels map[string]string
	// Active is false for a namespace that is being deleted.
	Active bool
	// HasItems tells that at least one item in the namespace is selected.
	HasItems bool
}

// ArchivesNamespace reports whether a Namespace object itself is archived. As
// in Velero that is the case if
//
//   - a selected item lives in it, or
//   - it is active and its labels match the label selectors, even if it is not
//     included by name (the object is archived then, not what is in it), or
//   - it is active and included by name, also if it is empty; except that
//     with label selectors and no namespace filter an empty one stays out.
//
// It is never archived if it carries an exclusion label itself, or if Resource
// does not include "namespaces".
func (s *Selection) ArchivesNamespace(ns NamespaceObject) bool {
	if s.Resource(namespaceResource, false) != Included || ExcludedByLabel(ns.Labels) {
		return false
	}
	included := s.namespaces.includes(ns.Name)
	switch {
	case ns.HasItems:
		return included
	case !ns.Active:
		return false
	case len(s.selectors) == 0:
		return included
	default:
		return s.MatchesLabels(ns.Labels) || included && !s.namespaces.whole
	}
}
