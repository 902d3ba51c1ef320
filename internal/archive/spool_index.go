// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What the index takes in memory, roughly: a Spooled in a slice that grows by
// a quarter, and what comes with the first object of a folder or namespace.
const (
	defaultIndexBytes = 256 << 20
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
	items     Objects
	preferred bool
}

// index says where in a Spool an object is. While it is filled, it belongs to
// one goroutine; after finish it does not change.
type index struct {
	folders   map[folder]*spooledFolder
	preferred map[string]string // by resource
	// twins are, by resource, the objects that are in two folders, the one
	// without a version and the preferred one. They are kept once.
	twins map[string]Objects
	files int
	// left is the memory it may still take, in bytes.
	left int64
	// namespaces and last let equal strings share their bytes.
	namespaces map[string]string
	last       addition
}

// addition is what was added last.
type addition struct {
	resource string
	in       *spooledFolder
	plain    bool // without a version
	item     Spooled
}

func newIndex(limit int64) *index {
	if limit == 0 {
		limit = defaultIndexBytes
	}
	return &index{
		folders:    map[folder]*spooledFolder{},
		preferred:  map[string]string{},
		twins:      map[string]Objects{},
		namespaces: map[string]string{},
		left:       limit,
	}
}

// add remembers where an object is.
func (x *index) add(id Identity, offset, size int64) error {
	in, err := x.folder(id)
	if err != nil {
		return err
	}
	name := x.last.item.Name
	if id.Name != name {
		name = strings.Clone(id.Name)
		x.left -= int64(len(name))
	}
	now := addition{
		resource: id.GroupResource(), in: in, plain: id.Version == "",
		item: Spooled{Namespace: x.namespace(id.Namespace), Name: name, offset: offset, size: size},
	}
	if x.last.in != nil && now.isTwinOf(x.last) {
		x.last.in.items = x.last.in.items[:len(x.last.in.items)-1]
		x.twins[now.resource] = append(x.twins[now.resource], now.item)
		now.in = nil
	} else {
		in.items = append(in.items, now.item)
		x.left -= spooledCost
	}
	x.last = now
	x.files++
	return x.checkLimit()
}

// isTwinOf reports whether two additions are the two copies of one object.
func (a addition) isTwinOf(b addition) bool {
	return a.item == b.item && a.resource == b.resource &&
		(a.plain && b.in.preferred || b.plain && a.in.preferred)
}

func (x *index) checkLimit() error {
	if x.left < 0 {
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

// finish sorts the index and returns the resources in it. The error is
// ErrDuplicate if an object was added twice to a folder.
func (x *index) finish() ([]Resource, error) {
	x.namespaces, x.last = nil, addition{}
	for resource, twins := range x.twins {
		if err := x.join(resource, twins); err != nil {
			return nil, err
		}
	}
	resources := map[string]*Resource{}
	for key, in := range x.folders {
		if err := in.items.sort(key); err != nil {
			return nil, err
		}
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
	return sorted, nil
}

// join puts the twins of a resource into both of their folders, which share
// them unless one has more.
func (x *index) join(resource string, twins Objects) error {
	delete(x.twins, resource)
	for _, version := range []string{"", x.preferred[resource]} {
		in := x.folders[folder{resource, version}]
		if len(in.items) == 0 {
			in.items = twins
			continue
		}
		if x.left -= int64(len(twins)) * spooledCost; x.left < 0 {
			return x.checkLimit()
		}
		in.items = slices.Concat(in.items, twins)
	}
	return nil
}

// sort sorts the objects of a folder, which must differ.
func (o Objects) sort(in folder) error {
	slices.SortFunc(o, Spooled.compare)
	for i := range o[min(1, len(o)):] {
		if o[i].compare(o[i+1]) == 0 {
			return fmt.Errorf("%w: %s/%s of %s", ErrDuplicate, o[i].Namespace, o[i].Name, in.resource)
		}
	}
	return nil
}

func (x *index) objects(resource, version string) Objects {
	if in, ok := x.folders[folder{resource, version}]; ok {
		return in.items
	}
	return nil
}

// Find returns the place of an object, or the one where it would be.
func (o Objects) Find(namespace, name string) (at int, found bool) {
	return slices.BinarySearchFunc(o, Spooled{Namespace: namespace, Name: name}, Spooled.compare)
}

func (o Spooled) compare(other Spooled) int {
	return cmp.Or(strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Name, other.Name))
}
