// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// What the index takes in memory, roughly: a ref in a slice that grows by a
// quarter, and what comes with the first object of a folder or namespace.
const (
	defaultIndexBytes = 256 << 20
	refCost           = 32
	namespaceCost     = 64
	folderCost        = 512
)

// ErrAmbiguous is returned by NewSpool for an archive in which two versions of
// a resource are the preferred one, or one is and is not.
var ErrAmbiguous = errors.New("archive is ambiguous")

// folder is a resource in one version, or without one.
type folder struct{ resource, version string }

// ref is a Spooled in a few bytes: there may be millions of them.
type ref struct {
	offset     int64
	size       uint32
	name       uint32 // where it begins in index.names
	namespace  uint32 // in index.namespaces
	nameLength uint16
}

// spooledFolder is what a folder holds.
type spooledFolder struct {
	refs      []ref
	preferred bool
}

// index says where in a Spool an object is. While it is filled, it belongs to
// one goroutine; after finish it does not change.
type index struct {
	folders   map[folder]*spooledFolder
	preferred map[string]string // by resource
	// twins are, by resource, the objects that are in two folders, the one
	// without a version and the preferred one. They are kept once.
	twins map[string][]ref
	files int
	// left is the memory it may still take, in bytes.
	left int64
	// names are those of all objects, one after the other, and namespaces all
	// that they are in; numbers has their places in it.
	names      strings.Builder
	namespaces []string
	numbers    map[string]uint32
	lastName   string
	last       addition
}

// addition is what was added last.
type addition struct {
	resource string
	in       *spooledFolder
	plain    bool // without a version
	ref      ref
}

func newIndex(limit int64) *index {
	if limit == 0 {
		limit = defaultIndexBytes
	}
	return &index{
		folders:    map[folder]*spooledFolder{},
		preferred:  map[string]string{},
		twins:      map[string][]ref{},
		namespaces: []string{""},
		numbers:    map[string]uint32{"": 0},
		left:       limit,
	}
}

// add remembers where an object is.
func (x *index) add(id Identity, offset, size int64) error {
	in, err := x.folder(id)
	if err != nil {
		return err
	}
	if len(id.Name) > math.MaxUint16 || size > math.MaxUint32 || x.names.Len() > math.MaxUint32-math.MaxUint16 {
		return fmt.Errorf("%w: object %d has %d bytes and a name of %d, after %d bytes of names",
			ErrLimit, x.files+1, size, len(id.Name), x.names.Len())
	}
	now := addition{resource: id.GroupResource(), in: in, plain: id.Version == "", ref: ref{
		offset: offset, size: uint32(size), name: x.name(id.Name), nameLength: uint16(len(id.Name)), //nolint:gosec // checked
		namespace: x.namespace(id.Namespace),
	}}
	if x.last.in != nil && now.isTwinOf(x.last) {
		x.last.in.refs = x.last.in.refs[:len(x.last.in.refs)-1]
		x.twins[now.resource] = append(x.twins[now.resource], now.ref)
		now.in = nil
	} else {
		in.refs = append(in.refs, now.ref)
		x.left -= refCost
	}
	x.last = now
	x.files++
	return x.checkLimit()
}

// name returns where a name begins. The copies of an object follow each other.
func (x *index) name(name string) uint32 {
	if name != x.lastName {
		x.lastName = strings.Clone(name)
		x.names.WriteString(name)
		x.left -= int64(len(name))
	}
	return uint32(x.names.Len() - len(name)) //nolint:gosec // add checks it
}

// isTwinOf reports whether two additions are the two copies of one object.
func (a addition) isTwinOf(b addition) bool {
	return a.ref == b.ref && a.resource == b.resource &&
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

// namespace returns the number of a namespace.
func (x *index) namespace(name string) uint32 {
	if number, ok := x.numbers[name]; ok {
		return number
	}
	name = strings.Clone(name)
	number := uint32(len(x.namespaces)) //nolint:gosec // limited by left
	x.namespaces, x.numbers[name] = append(x.namespaces, name), number
	x.left -= namespaceCost + int64(len(name))
	return number
}

// finish sorts the index and returns the resources in it. The error is
// ErrDuplicate if an object was added twice to a folder.
func (x *index) finish() ([]Resource, error) {
	x.numbers, x.last = nil, addition{}
	for resource, twins := range x.twins {
		if err := x.join(resource, twins); err != nil {
			return nil, err
		}
	}
	resources := map[string]*Resource{}
	for key, in := range x.folders {
		if err := x.of(in).sort(key); err != nil {
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
func (x *index) join(resource string, twins []ref) error {
	delete(x.twins, resource)
	for _, version := range []string{"", x.preferred[resource]} {
		in := x.folders[folder{resource, version}]
		if len(in.refs) == 0 {
			in.refs = twins
			continue
		}
		if x.left -= int64(len(twins)) * refCost; x.left < 0 {
			return x.checkLimit()
		}
		in.refs = slices.Concat(in.refs, twins)
	}
	return nil
}

func (x *index) objects(resource, version string) Objects {
	if in, ok := x.folders[folder{resource, version}]; ok {
		return x.of(in)
	}
	return Objects{}
}

func (x *index) of(in *spooledFolder) Objects {
	return Objects{names: x.names.String(), namespaces: x.namespaces, refs: in.refs}
}
