// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Spec is the part of a Backup's or Restore's spec that selects objects. The
// field names and their meaning are those of Velero's BackupSpec. There are two mutually
// exclusive ways to filter resource types: the older IncludedResources,
// ExcludedResources and IncludeClusterResources, and the four scoped lists.
type Spec struct {
	// FromBackup reports that the objects are those of a backup to be restored, and not
	// those of a cluster. It is not part of the user's spec.
	FromBackup bool

	// IncludedNamespaces are names or patterns (*, ?, [abc]); empty or "*" means all. An
	// empty string means "no namespace", so [""] selects only cluster-scoped objects.
	IncludedNamespaces []string
	// ExcludedNamespaces are names or patterns that take precedence over
	// IncludedNamespaces.
	ExcludedNamespaces []string
	// OptedOutNamespaces are the namespaces that have an exclusion label (see
	// IsExcludedByLabel). The caller that lists the namespaces sets it; it is not part of
	// the user's spec and therefore not validated. They are treated like
	// ExcludedNamespaces. In particular, a backup with an opted-out namespace is no longer
	// one of the whole cluster.
	OptedOutNamespaces []string

	// IncludedResources are resource names in any form the cluster resolves
	// ("po", "pods", "Deployment", "deployments.apps") or patterns matched
	// against the full name ("*.apps"); empty or "*" means all.
	IncludedResources []string
	// ExcludedResources are names or patterns that take precedence over IncludedResources.
	ExcludedResources []string
	// IncludeClusterResources decides about cluster-scoped resources: true
	// includes those that pass the two lists above, false none, nil only those
	// that included items need, unless all namespaces are included.
	IncludeClusterResources *bool

	// IncludedClusterScopedResources are the cluster-scoped resources to
	// include; empty means those that included items need, "*" all.
	IncludedClusterScopedResources []string
	// ExcludedClusterScopedResources take precedence over IncludedClusterScopedResources;
	// "*" excludes all.
	ExcludedClusterScopedResources []string
	// IncludedNamespaceScopedResources are the namespaced resources to
	// include; empty or "*" means all.
	IncludedNamespaceScopedResources []string
	// ExcludedNamespaceScopedResources take precedence over
	// IncludedNamespaceScopedResources; "*" excludes all.
	ExcludedNamespaceScopedResources []string

	// LabelSelector restricts the backup to items whose labels match.
	LabelSelector *metav1.LabelSelector
	// OrLabelSelectors restricts the backup to items that match at least one of them. It
	// cannot be combined with LabelSelector.
	OrLabelSelectors []*metav1.LabelSelector

	// OrderedResources maps a resource name to the comma-separated items
	// ("namespace/name", or "name" for cluster-scoped ones) that are archived
	// first, in that order.
	OrderedResources map[string]string
}

// usesOldFilters reports which of the two ways to filter resource types is in use. With
// neither, Velero follows the rules of the scoped lists.
func (s Spec) usesOldFilters() bool {
	return s.IncludeClusterResources != nil || len(s.IncludedResources) > 0 || len(s.ExcludedResources) > 0
}

func (s Spec) usesScopedFilters() bool {
	return len(s.IncludedClusterScopedResources)+len(s.ExcludedClusterScopedResources)+
		len(s.IncludedNamespaceScopedResources)+len(s.ExcludedNamespaceScopedResources) > 0
}

// Resolver has the resource types that a cluster serves. *discovery.Resources implements
// it.
type Resolver interface {
	// Resolve finds the resource that a user means by name, which may be a plural,
	// singular, short name or kind, with or without (a prefix of) its group: "po", "pods",
	// "deployment", "deployments.apps". It reports false if the cluster has no such
	// resource.
	Resolve(name string) (schema.GroupResource, bool)
	// Scopes returns all resources to which a name can resolve; the value reports whether
	// the resource is namespaced. The caller does not change it.
	Scopes() map[schema.GroupResource]bool
}

// Inclusion reports whether a resource type is part of a backup.
type Inclusion int

const (
	// Excluded resources are not archived, not even if an included item needs them.
	Excluded Inclusion = iota
	// RelatedOnly resources are not collected, but an item of them is archived if an
	// included item or a plugin requests it (for example the PersistentVolume of an
	// included PersistentVolumeClaim).
	RelatedOnly
	// Included resources are collected.
	Included
)

// String returns the name of the constant.
func (i Inclusion) String() string {
	switch i {
	case Included:
		return "Included"
	case RelatedOnly:
		return "RelatedOnly"
	default:
		return "Excluded"
	}
}
