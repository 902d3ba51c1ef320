// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"
)

// namespaceFilter selects namespaces. Include patterns are expanded when the backup starts:
// otherwise a namespace created later would be archived in part. Exclude patterns stay
// patterns, so that they also apply to later namespaces.
type namespaceFilter struct {
	include            *matcher
	exclude            *matcher
	hasIncludePatterns bool     // include holds what patterns expanded to, maybe nothing
	existing           []string // sorted
	wholeCluster       bool     // every namespace is in and none is excluded
}

func (f *namespaceFilter) includesNamespace(name string) bool {
	if f.exclude.matchesName(name) {
		return false
	}
	if f.include.isEmpty() {
		return !f.hasIncludePatterns
	}
	return f.include.matchesName(name)
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
		if err := s.addIncludedNamespace(field, entry, spec.OptedOutNamespaces); err != nil {
			return err
		}
	}
	f.wholeCluster = f.includesEveryExisting() && f.hasNoExclusions()
	if spec.FromBackup {
		// The result must not depend on what else was backed up.
		f.wholeCluster = f.wholeCluster && f.include.isUnrestricted()
	}
	return nil
}

// hasNoExclusions reports whether the exclude list restricts nothing. With an include list
// of names, Velero expands exclude patterns, so a pattern without a match has no effect;
// with "*" it stays a restriction.
func (f *namespaceFilter) hasNoExclusions() bool {
	if f.include.isUnrestricted() {
		return f.exclude.isEmpty()
	}
	return len(f.exclude.names) == 0 && !slices.ContainsFunc(f.existing, f.exclude.matchesName)
}

// includesEveryExisting reports whether the include list restricts nothing: it is empty, it
// is "*", or it matches exactly the existing namespaces.
func (f *namespaceFilter) includesEveryExisting() bool {
	if f.include.isUnrestricted() {
		return !f.hasIncludePatterns || f.include.all
	}
	return slices.Equal(sortedKeys(f.include.names), f.existing)
}

func (s *Selection) addIncludedNamespace(field, entry string, optedOut []string) error {
	f := &s.namespaces
	if !isPattern(entry) || entry == matchAll {
		s.warnAboutNamespace(field, entry, optedOut)
		return f.include.addEntry(entry)
	}
	f.hasIncludePatterns = true
	pattern, err := newMatcher([]string{entry})
	if err != nil {
		return err
	}
	matched, excluded := 0, 0
	for _, name := range f.existing {
		if !pattern.matchesName(name) {
			continue
		}
		matched++
		if f.exclude.matchesName(name) {
			excluded++
		}
		f.include.names[name] = struct{}{}
	}
	switch matched {
	case 0:
		s.addWarning(field, s.clusterOrBackupText("no namespace matches the pattern %q", "no namespace of the backup matches the pattern %q"), entry)
	case excluded:
		s.addWarning(field, "every namespace that matches the pattern %q is excluded", entry)
	}
	return nil
}

func (s *Selection) warnAboutNamespace(field, name string, optedOut []string) {
	if name == matchAll || name == "" {
		return
	}
	_, exists := slices.BinarySearch(s.namespaces.existing, name)
	switch {
	case slices.Contains(optedOut, name):
		s.addWarning(field, "namespace %q carries the label %s or %s, which keeps it out of every backup",
			name, GrapnelExcludeLabel, VeleroExcludeLabel)
	case s.namespaces.exclude.matchesName(name):
		s.addWarning(field, "namespace %q is excluded", name)
	case !exists && s.fromBackup:
		s.addWarning(field, "the backup contains nothing of namespace %q", name)
	case !exists && !slices.Contains(s.missingNamespaces, name):
		s.missingNamespaces = append(s.missingNamespaces, name)
	}
}

// warnAboutOptedOut explains why a backup without filters does not include cluster-scoped
// resources: a user put an exclusion label on a namespace.
func (s *Selection) warnAboutOptedOut(spec Spec) {
	filtered := len(spec.ExcludedNamespaces) > 0 || !s.namespaces.include.isUnrestricted() || s.namespaces.hasIncludePatterns ||
		spec.IncludeClusterResources != nil || len(spec.IncludedResources) > 0 || spec.usesScopedFilters()
	if len(spec.OptedOutNamespaces) == 0 || filtered {
		return
	}
	s.addWarning("spec.includeClusterResources", "cluster-scoped resources are archived only where included items need them, "+
		"because namespaces carry the label %s or %s (%s); set it to true to archive all of them",
		GrapnelExcludeLabel, VeleroExcludeLabel, strings.Join(spec.OptedOutNamespaces, ", "))
}

// IncludedNamespaces returns the existing namespaces that are included, sorted, and
// whether there is no namespace filter at all. If all is true, names still
// lists them, but namespaces that appear later are included as well.
func (s *Selection) IncludedNamespaces() (names []string, all bool) {
	for _, name := range s.namespaces.existing {
		if s.namespaces.includesNamespace(name) {
			names = append(names, name)
		}
	}
	return names, s.namespaces.wholeCluster && s.namespaces.include.isUnrestricted()
}

// IncludesNamespace reports whether namespaced items in namespace ns are included. It is
// cheap enough to be called for every item. For cluster-scoped items use ResourceInclusion
// instead.
func (s *Selection) IncludesNamespace(ns string) bool {
	return s.namespaces.includesNamespace(ns)
}

// NamespaceObject describes a Namespace object to ShouldArchiveNamespace.
type NamespaceObject struct {
	// Name is the name of the namespace.
	Name string
	// Labels are the labels of the Namespace object.
	Labels map[string]string
	// Active is false for a namespace that is being deleted.
	Active bool
	// HasItems reports that at least one item in the namespace is selected.
	HasItems bool
}

// ShouldArchiveNamespace reports whether a Namespace object itself is archived. As
// in Velero that is the case if
//
//   - a selected item lives in it, or
//   - it is active and its labels match the label selectors, even if it is not
//     included by name (the object is archived then, not what is in it), or
//   - it is active and included by name, also if it is empty; except that
//     with label selectors and no namespace filter an empty one stays out.
//
// It is never archived if it has an exclusion label itself, or if ResourceInclusion
// excludes "namespaces".
func (s *Selection) ShouldArchiveNamespace(ns NamespaceObject) bool {
	if s.ResourceInclusion(namespaceResource, false) != Included || IsExcludedByLabel(ns.Labels) {
		return false
	}
	included := s.namespaces.includesNamespace(ns.Name)
	switch {
	case ns.HasItems:
		return included
	case !ns.Active:
		return false
	case len(s.selectors) == 0:
		return included
	default:
		return s.MatchesLabels(ns.Labels) || included && !s.namespaces.wholeCluster
	}
}
