// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resourceFilter selects resource types by their full name, for example "deployments.apps".
type resourceFilter struct {
	usesOldFilters          bool
	oldLists                *typeFilter // the older lists
	clusterScoped           *typeFilter
	namespaceScoped         *typeFilter
	includeClusterResources *bool
}

// typeFilter is one pair of lists with resolved names.
type typeFilter struct {
	include *matcher
	exclude *matcher
	// allIncludesDropped reports that the include list was not empty but none of its
	// entries can select anything.
	allIncludesDropped bool
}

// includesResource treats an empty include list as everything.
func (f *typeFilter) includesResource(name string) bool {
	if f.exclude.matchesName(name) {
		return false
	}
	if f.include.isEmpty() {
		return !f.allIncludesDropped
	}
	return f.include.matchesName(name)
}

func (s *Selection) compileResources(spec Spec, resolver Resolver) error {
	r := &resourceFilterCompiler{selection: s, resolver: resolver, scopes: resolver.Scopes()}
	s.resources = resourceFilter{usesOldFilters: spec.usesOldFilters(), includeClusterResources: spec.IncludeClusterResources}
	var err error
	if s.resources.usesOldFilters {
		s.resources.oldLists, err = r.newTypeFilter(listPair{
			"spec.includedResources", spec.IncludedResources,
			"spec.excludedResources", spec.ExcludedResources,
		}, nil)
		return err
	}
	namespaced, cluster := true, false
	s.resources.namespaceScoped, err = r.newTypeFilter(listPair{
		"spec.includedNamespaceScopedResources", spec.IncludedNamespaceScopedResources,
		"spec.excludedNamespaceScopedResources", spec.ExcludedNamespaceScopedResources,
	}, &namespaced)
	if err != nil {
		return err
	}
	s.resources.clusterScoped, err = r.newTypeFilter(listPair{
		"spec.includedClusterScopedResources", spec.IncludedClusterScopedResources,
		"spec.excludedClusterScopedResources", spec.ExcludedClusterScopedResources,
	}, &cluster)
	return err
}

// ResourceInclusion reports whether the items of a resource type are part of the backup.
// The namespaced flag is from discovery.
//
// Namespaced resources are Included or Excluded, by the lists alone; whether
// their items are, depends on the namespace too. For cluster-scoped ones:
//
//   - includeClusterResources true: Included if the lists include them,
//     otherwise RelatedOnly unless excluded by name;
//   - includeClusterResources false: Excluded;
//   - includeClusterResources unset, with the older lists: Included if the
//     lists include them and no namespace filter is set, RelatedOnly if the
//     lists include them and one is, otherwise Excluded;
//   - scoped lists, or none: Included if listed, or if no filter is set at
//     all; otherwise RelatedOnly unless excluded by name.
//
// The resource "namespaces" is not affected by namespace filters and is never less than
// RelatedOnly; ShouldArchiveNamespace decides about its items. The resources of
// IsNeverArchived and volume snapshots are always Excluded from backups. If a backup of
// Velero contains them, the restore reports why it does not restore them.
func (s *Selection) ResourceInclusion(gr schema.GroupResource, namespaced bool) Inclusion {
	if !s.fromBackup && (IsNeverArchived(gr) || isVolumeSnapshot(gr)) {
		return Excluded
	}
	name := gr.String()
	if s.resources.usesOldFilters {
		return s.inclusionByOldFilters(gr, name, namespaced)
	}
	return s.inclusionByScopedFilters(gr, name, namespaced)
}

func (s *Selection) inclusionByOldFilters(gr schema.GroupResource, name string, namespaced bool) Inclusion {
	listed := s.resources.oldLists.includesResource(name)
	if namespaced {
		if listed {
			return Included
		}
		return Excluded
	}
	flag := s.resources.includeClusterResources
	refused := flag != nil && !*flag
	if gr == namespaceResource {
		if listed && !refused {
			return Included
		}
		return RelatedOnly
	}
	switch {
	case refused || s.resources.oldLists.exclude.matchesName(name):
		return Excluded
	case flag != nil:
		if listed {
			return Included
		}
		return RelatedOnly
	case !listed:
		return Excluded
	case s.namespaces.wholeCluster:
		return Included
	default:
		return RelatedOnly
	}
}

func (s *Selection) inclusionByScopedFilters(gr schema.GroupResource, name string, namespaced bool) Inclusion {
	if namespaced {
		if s.resources.namespaceScoped.includesResource(name) {
			return Included
		}
		return Excluded
	}
	cluster := s.resources.clusterScoped
	excluded := cluster.exclude.matchesName(name)
	switch {
	case gr == namespaceResource:
		if excluded {
			return RelatedOnly
		}
		return Included
	case excluded:
		return Excluded
	case cluster.include.matchesName(name) || s.isUnfiltered():
		return Included
	default:
		return RelatedOnly
	}
}

// isUnfiltered reports whether neither namespaces nor resource types are restricted: only
// then are cluster-scoped resources included by default.
func (s *Selection) isUnfiltered() bool {
	cluster, namespaced := s.resources.clusterScoped, s.resources.namespaceScoped
	return s.namespaces.wholeCluster &&
		cluster.include.isEmpty() && cluster.exclude.isEmpty() && !cluster.allIncludesDropped &&
		namespaced.include.isUnrestricted() && namespaced.exclude.isEmpty() && !namespaced.allIncludesDropped
}

// resourceFilterCompiler resolves user input to full resource names.
type resourceFilterCompiler struct {
	selection *Selection
	resolver  Resolver
	scopes    map[schema.GroupResource]bool
}

type listPair struct {
	includeField string
	include      []string
	excludeField string
	exclude      []string
}

// newTypeFilter compiles a pair of lists. If scope is set, entries of the other scope are
// dropped, because they cannot select anything.
func (r *resourceFilterCompiler) newTypeFilter(lists listPair, scope *bool) (*typeFilter, error) {
	f := &typeFilter{}
	var err error
	if f.exclude, err = newMatcher(nil); err != nil {
		return nil, err
	}
	if f.include, err = newMatcher(nil); err != nil {
		return nil, err
	}
	for i, entry := range lists.exclude {
		name, _, ok := r.resolveEntry(entry, scope)
		if !ok {
			continue
		}
		if err := f.exclude.addEntry(name); err != nil {
			return nil, fmt.Errorf("compiling %s[%d]: %w", lists.excludeField, i, err)
		}
	}
	for i, entry := range lists.include {
		field := fmt.Sprintf("%s[%d]", lists.includeField, i)
		name, known, ok := r.resolveEntry(entry, scope)
		if !ok {
			r.selection.addWarning(field, "%q is %s and has no effect here", entry, scopeName(!*scope))
			continue
		}
		if err := f.include.addEntry(name); err != nil {
			return nil, fmt.Errorf("compiling %s: %w", field, err)
		}
		r.warnAboutResource(field, entry, name, known, f.exclude)
	}
	f.allIncludesDropped = len(lists.include) > 0 && f.include.isEmpty()
	return f, nil
}

// resolveEntry returns the full name of an entry, or the entry itself if the cluster
// has no such resource (Velero issue 2461: otherwise a list of unknown names
// would be an empty list, which means everything). It reports false for an
// entry of the wrong scope.
func (r *resourceFilterCompiler) resolveEntry(entry string, scope *bool) (name string, known, ok bool) {
	if entry == matchAll {
		return entry, true, true
	}
	gr, found := r.resolver.Resolve(entry)
	if !found {
		return entry, false, true
	}
	if namespaced, listed := r.scopes[gr]; scope != nil && listed && namespaced != *scope {
		return "", true, false
	}
	return gr.String(), true, true
}

func (r *resourceFilterCompiler) warnAboutResource(field, entry, name string, known bool, exclude *matcher) {
	if entry == matchAll {
		return
	}
	gr := schema.ParseGroupResource(name)
	switch {
	case known && IsNeverArchived(gr):
		r.selection.addWarning(field, "%q are records of backup runs and are never %s", name, r.selection.clusterOrBackupText("archived", "restored"))
	case known && isVolumeSnapshot(gr):
		r.selection.addWarning(field, "%q are %s", name, r.selection.clusterOrBackupText("archived only where a plugin asks for them", "never restored"))
	case known && exclude.matchesName(name):
		r.selection.addWarning(field, "resource %q is excluded", name)
	case known:
	case !isPattern(entry):
		r.selection.addWarning(field, r.selection.clusterOrBackupText("the cluster does not serve a resource %q that can be archived",
			"neither the backup nor the cluster has a resource %q"), entry)
	default:
		r.warnAboutPattern(field, entry)
	}
}

func (r *resourceFilterCompiler) warnAboutPattern(field, entry string) {
	pattern, err := newMatcher([]string{entry})
	if err != nil {
		return // Validate and newTypeFilter have reported it
	}
	for gr := range r.scopes {
		if pattern.matchesName(gr.String()) && !IsNeverArchived(gr) {
			return
		}
	}
	r.selection.addWarning(field, r.selection.clusterOrBackupText("no resource of the cluster matches the pattern %q",
		"no resource of the backup or the cluster matches the pattern %q"), entry)
}

func scopeName(namespaced bool) string {
	if namespaced {
		return "namespaced"
	}
	return "cluster-scoped"
}
