// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import "github.com/grapnel-dev/grapnel/internal/archive"

// namespaceMapping maps namespaces of the archive to those of the cluster.
type namespaceMapping struct {
	// originals are the names in the archive, sorted.
	originals []string
	mapping   map[string]string
	sources   map[string][]string
}

func newNamespaceMapping(originals []string, mapping map[string]string) namespaceMapping {
	p := namespaceMapping{originals: originals, mapping: mapping, sources: map[string][]string{}}
	for _, original := range originals {
		target := p.targetNamespace(original)
		p.sources[target] = append(p.sources[target], original)
	}
	return p
}

// targetNamespace returns the name in the cluster.
func (p namespaceMapping) targetNamespace(original string) string {
	if mapped, ok := p.mapping[original]; ok {
		return mapped
	}
	return original
}

// targetNames returns the namespace and name of an object in the cluster.
func (p namespaceMapping) targetNames(k *kind, object archive.SpooledObject) (namespace, name string) {
	name = object.Name
	if object.Namespace != "" {
		namespace = p.targetNamespace(object.Namespace)
	}
	if k.resource == namespaceResource {
		name = p.targetNamespace(name)
	}
	return namespace, name
}

// sourceNamespaces returns the sorted names in the archive of a namespace in the cluster.
// There are several if namespaces are merged.
func (p namespaceMapping) sourceNamespaces(target string) []string { return p.sources[target] }

// conflictingSource returns an object of the archive with the same target as another one,
// because their namespaces are merged and it comes first.
func (p namespaceMapping) conflictingSource(k *kind, e entry) (namespace string, ok bool) {
	if e.Namespace == "" {
		return "", false
	}
	sources := p.sourceNamespaces(p.targetNamespace(e.Namespace))
	for _, source := range sources {
		if source == e.Namespace {
			return "", false
		}
		if _, found := k.findEntry(source, e.Name); found {
			return source, true
		}
	}
	return "", false
}
