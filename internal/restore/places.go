// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import "github.com/grapnel-dev/grapnel/internal/archive"

// places says which namespaces of the archive become which of the cluster.
type places struct {
	// originals are the names in the archive, sorted.
	originals []string
	mapping   map[string]string
	sources   map[string][]string
}

func newPlaces(originals []string, mapping map[string]string) places {
	p := places{originals: originals, mapping: mapping, sources: map[string][]string{}}
	for _, original := range originals {
		target := p.target(original)
		p.sources[target] = append(p.sources[target], original)
	}
	return p
}

// target returns the name in the cluster.
func (p places) target(original string) string {
	if mapped, ok := p.mapping[original]; ok {
		return mapped
	}
	return original
}

// of returns the namespace and name that an object has in the cluster.
func (p places) of(k *kind, object archive.Spooled) (namespace, name string) {
	name = object.Name
	if object.Namespace != "" {
		namespace = p.target(object.Namespace)
	}
	if k.resource == namespacesResource {
		name = p.target(name)
	}
	return namespace, name
}

// from returns the names in the archive, sorted, of a namespace in the cluster.
// There are several if namespaces are merged.
func (p places) from(target string) []string { return p.sources[target] }

// rival returns an object of the archive that takes the place of another one in
// the cluster, because their namespaces are merged and it comes first.
func (p places) rival(k *kind, e entry) (namespace string, ok bool) {
	if e.Namespace == "" {
		return "", false
	}
	sources := p.from(p.target(e.Namespace))
	for _, source := range sources {
		if source == e.Namespace {
			return "", false
		}
		if _, found := k.find(source, e.Name); found {
			return source, true
		}
	}
	return "", false
}
