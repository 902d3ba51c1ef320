// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// What the index takes in memory, roughly: a Spooled in a slice that grows by
// a quarter, and what comes with the first object of a folder or namespace.
const (
	defaultIndexBytes = 1 << 30
	spooledCost       = 64
	namespaceCost     = 64
	folderCost        = 512
)

// ErrAmbiguous is returned by NewSpool for an archive in which two versions of
// a resource are the preferred one, or one is and is not.
var ErrAmbiguous = errors.New("archive is ambiguous")

// folder is a resource in one version, or without one.
type folder struct{ resource, version string }

// spooledFolder is what a folder holds.
type spooledFolder struct {
	items     []Spooled
	preferred bool
}

// index says where in a Spool an object is. While it is filled, it belongs to
// one goroutine; after finish it does not change.
type index struct {
	folders   map[folder]*spooledFolder
	preferred map[string]string // by resource
	files     int
	// left is the memory it may still take, in bytes.
	left int64
	// namespaces and lastName let equal strings share their bytes.
	namespaces map[string]string
	lastName   string
}

func newIndex(limit int64) *index {
	if limit == 0 {
		limit = defaultIndexBytes
	}
	return &index{
		folders:    map[folder]*spooledFolder{},
		preferred:  map[string]string{},
		namespaces: map[string]string{},
		left:       limit,
	}
}

// add remembers where an object is, that was not added before.
func (x *index) add(id Identity, offset, size int64) error {
	in, err := x.folder(id)
	if err != nil {
		return err
	}
	if id.Name != x.lastName {
		x.lastName = strings.Clone(id.Name)
		x.left -= int64(len(x.lastName))
	}
	in.items = append(in.items, Spooled{Namespace: x.namespace(id.Namespace), Name: x.lastName, offset: offset, size: size})
	x.files++
	if x.left -= spooledCost; x.left < 0 {
		return fmt.Errorf("%w: too many objects to remember after %d", ErrLimit, x.files)
	}
	return nil
}

// folder returns the folder that id belongs in. What it keeps of id is cloned:
// it is a part of a whole path otherwise.
func (x *index) folder(id Identity) (*spooledFolder, error) {
	key := folder{id.GroupResource(), id.Version}
	if in, ok := x.folders[key]; ok {
		if in.preferred != id.Preferred {
			return nil, fmt.Errorf("%w: version %q of %s is the preferred one and is not", ErrAmbiguous, id.Version, key.resource)
		}
		return in, nil
	}
	key = folder{strings.Clone(key.resource), strings.Clone(key.version)}
	if id.Preferred {
		if other, ok := x.preferred[key.resource]; ok {
			return nil, fmt.Errorf("%w: %s has the preferred versions %q and %q", ErrAmbiguous, key.resource, other, key.version)
		}
		x.preferred[key.resource] = key.version
	}
	in := &spooledFolder{preferred: id.Preferred}
	x.folders[key] = in
	x.left -= folderCost + int64(len(key.resource)+len(key.version))
	return in, nil
}

// namespace returns the one string that stands for a namespace.
func (x *index) namespace(name string) string {
	if kept, ok := x.namespaces[name]; ok {
		return kept
	}
	name = strings.Clone(name)
	x.namespaces[name] = name
	x.left -= namespaceCost + int64(len(name))
	return name
}

// finish sorts the index and returns the resources in it.
func (x *index) finish() []Resource {
	x.namespaces = nil
	resources := map[string]*Resource{}
	for key, in := range x.folders {
		slices.SortFunc(in.items, Spooled.compare)
		resource, ok := resources[key.resource]
		if !ok {
			resource = &Resource{Name: key.resource, Preferred: x.preferred[key.resource]}
			resources[key.resource] = resource
		}
		if key.version != "" {
			resource.Versions = append(resource.Versions, key.version)
		}
	}
	sorted := make([]Resource, 0, len(resources))
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		slices.Sort(resources[name].Versions)
		sorted = append(sorted, *resources[name])
	}
	return sorted
}

func (x *index) items(resource, version string) iter.Seq[Spooled] {
	return slices.Values(x.sorted(resource, version))
}

func (x *index) lookup(resource, version, namespace, name string) (Spooled, bool) {
	items := x.sorted(resource, version)
	at, found := slices.BinarySearchFunc(items, Spooled{Namespace: namespace, Name: name}, Spooled.compare)
	if !found {
		return Spooled{}, false
	}
	return items[at], true
}

func (x *index) sorted(resource, version string) []Spooled {
	if in, ok := x.folders[folder{resource, version}]; ok {
		return in.items
	}
	return nil
}

func (o Spooled) compare(other Spooled) int {
	return cmp.Or(strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Name, other.Name))
}
