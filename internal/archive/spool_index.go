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

// nameBlockSize is the size of the blocks that contain names. A growing string would be
// copied again and again.
const (
	nameBlockBits = 20
	nameBlockSize = 1 << nameBlockBits
)

// ErrAmbiguous is returned by NewSpool for an archive in which two versions of a resource
// are preferred, or one is both preferred and not.
var ErrAmbiguous = errors.New("archive is ambiguous")

// directoryKey is a resource in one version, or without one.
type directoryKey struct{ resource, version string }

// objectRef is a compact SpooledObject: there may be millions of them.
type objectRef struct {
	offset     int64
	size       uint32
	name       uint32 // offset in names
	namespace  uint32 // index in index.namespaces
	nameLength uint16
}

// spooledDirectory has the objects of a directory.
type spooledDirectory struct {
	refs      []objectRef
	preferred bool
}

// spoolIndex has the positions of the objects in a Spool. While it is filled, only one
// goroutine may use it. After buildResources it does not change.
type spoolIndex struct {
	directories map[directoryKey]*spooledDirectory
	preferred   map[string]string // by resource
	// twins are, by resource, the objects in two directories, the one without a version and
	// the preferred one. They are stored once.
	twins  map[string][]objectRef
	files  int
	memory indexMemory
	// names are those of all objects, one after the other, and namespaces all of their
	// namespaces; numbers has the index of each namespace.
	names            nameTable
	namespaces       []string
	namespaceNumbers map[string]uint32
	lastName         string
	lastNameStart    uint32
	last             addedObject
}

// addedObject is the last added object.
type addedObject struct {
	resource    string
	in          *spooledDirectory
	unversioned bool // without a version
	ref         objectRef
}

// nameTable stores strings of less than nameBlockSize bytes, one after the other in blocks,
// so that 32 bits are enough for an offset.
type nameTable struct {
	blocks []string
	last   strings.Builder
}

// isFull reports whether 32 bits are not enough for the offset of another name.
func (n *nameTable) isFull() bool { return len(n.blocks) >= math.MaxUint32>>nameBlockBits }

// appendName returns the offset of the name.
func (n *nameTable) appendName(name string) uint32 {
	if n.last.Len()+len(name) > nameBlockSize {
		n.blocks = append(n.blocks, n.last.String())
		n.last = strings.Builder{}
	}
	if n.last.Cap() == 0 {
		n.last.Grow(nameBlockSize)
	}
	begin := len(n.blocks)<<nameBlockBits + n.last.Len()
	n.last.WriteString(name)
	return uint32(begin) //nolint:gosec // checked by isFull before
}

// finishBlock ends the last block. After that, names can be read.
func (n *nameTable) finishBlock() {
	n.blocks = append(n.blocks, strings.Clone(n.last.String()))
	n.last = strings.Builder{}
}

func (n *nameTable) nameAt(r objectRef) string {
	return n.blocks[r.name>>nameBlockBits][r.name&(nameBlockSize-1):][:r.nameLength]
}

func newSpoolIndex(limit int64) *spoolIndex {
	return &spoolIndex{
		directories:      map[directoryKey]*spooledDirectory{},
		preferred:        map[string]string{},
		twins:            map[string][]objectRef{},
		namespaces:       []string{""},
		namespaceNumbers: map[string]uint32{"": 0},
		memory:           indexMemory{limit: limit},
	}
}

// addObjectRef records the position of an object.
func (x *spoolIndex) addObjectRef(id Identity, offset, size int64) error {
	in, err := x.getOrCreateDirectory(id)
	if err != nil {
		return err
	}
	if len(id.Name) > math.MaxUint16 || size > math.MaxUint32 || x.names.isFull() {
		return fmt.Errorf("%w: object %d has %d bytes and a name of %d, after %d MiB of names",
			ErrLimitExceeded, x.files+1, size, len(id.Name), len(x.names.blocks))
	}
	if x.files == 0 || id.Name != x.lastName { // the copies of an object follow each other
		x.lastName = strings.Clone(id.Name)
		x.lastNameStart = x.names.appendName(id.Name)
		x.memory.addObjectName(id.Name)
	}
	now := addedObject{resource: id.GroupResource(), in: in, unversioned: id.Version == "", ref: objectRef{
		offset: offset, size: uint32(size), name: x.lastNameStart, nameLength: uint16(len(id.Name)), //nolint:gosec // checked
		namespace: x.internNamespace(id.Namespace),
	}}
	if x.last.in != nil && now.isTwinOf(x.last) {
		x.last.in.refs = x.last.in.refs[:len(x.last.in.refs)-1]
		x.twins[now.resource] = appendObjectRef(x.twins[now.resource], now.ref)
		now.in = nil
	} else {
		in.refs = appendObjectRef(in.refs, now.ref)
		x.memory.addObjectRef()
	}
	x.last = now
	x.files++
	return x.memory.checkLimit(int64(x.files))
}

// appendObjectRef is append with the growth that indexMemory assumes: append doubles small
// slices.
func appendObjectRef(refs []objectRef, r objectRef) []objectRef {
	if len(refs) == cap(refs) {
		refs = append(make([]objectRef, 0, len(refs)+len(refs)/4+4), refs...)
	}
	return append(refs, r)
}

// isTwinOf reports whether two additions are the two copies of one object.
func (a addedObject) isTwinOf(b addedObject) bool {
	return a.ref == b.ref && a.resource == b.resource &&
		(a.unversioned && b.in.preferred || b.unversioned && a.in.preferred)
}

// getOrCreateDirectory returns the directory of id. It clones what it keeps of id, which would
// otherwise keep a whole path in memory.
func (x *spoolIndex) getOrCreateDirectory(id Identity) (*spooledDirectory, error) {
	key := directoryKey{id.GroupResource(), id.Version}
	if in, ok := x.directories[key]; ok {
		if in.preferred != id.Preferred {
			return nil, fmt.Errorf("%w: version %q of %s is both preferred and not preferred", ErrAmbiguous, id.Version, key.resource)
		}
		return in, nil
	}
	key = directoryKey{strings.Clone(key.resource), strings.Clone(key.version)}
	if id.Preferred {
		if other, ok := x.preferred[key.resource]; ok {
			return nil, fmt.Errorf("%w: %s has the preferred versions %q and %q", ErrAmbiguous, key.resource, other, key.version)
		}
		x.preferred[key.resource] = key.version
	}
	in := &spooledDirectory{preferred: id.Preferred}
	x.directories[key] = in
	x.memory.addDirectory(len(key.resource) + len(key.version))
	return in, nil
}

// internNamespace returns the number of a namespace.
func (x *spoolIndex) internNamespace(name string) uint32 {
	if number, ok := x.namespaceNumbers[name]; ok {
		return number
	}
	name = strings.Clone(name)
	number := uint32(len(x.namespaces)) //nolint:gosec // limited by memory
	x.namespaces, x.namespaceNumbers[name] = append(x.namespaces, name), number
	x.memory.addNamespace(name)
	return number
}

// buildResources sorts the index and returns the resources in it. The error is
// ErrDuplicate if an object was added twice to a directory.
func (x *spoolIndex) buildResources() ([]Resource, error) {
	x.namespaceNumbers, x.last = nil, addedObject{}
	x.names.finishBlock()
	for resource, twins := range x.twins {
		if err := x.distributeTwins(resource, twins); err != nil {
			return nil, err
		}
	}
	resources := map[string]*Resource{}
	for key, in := range x.directories {
		if err := x.objectsInDirectory(in).sortDistinctObjects(key); err != nil {
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

// distributeTwins adds the twins of a resource to both of their directories, which share
// them unless one has more.
func (x *spoolIndex) distributeTwins(resource string, twins []objectRef) error {
	delete(x.twins, resource)
	for _, version := range []string{"", x.preferred[resource]} {
		in := x.directories[directoryKey{resource, version}]
		if len(in.refs) == 0 {
			in.refs = twins
			continue
		}
		x.memory.used += int64(len(twins)) * refCost
		if err := x.memory.checkLimit(int64(x.files)); err != nil {
			return err
		}
		in.refs = slices.Concat(in.refs, twins)
	}
	return nil
}

func (x *spoolIndex) objectsInVersion(resource, version string) Objects {
	if in, ok := x.directories[directoryKey{resource, version}]; ok {
		return x.objectsInDirectory(in)
	}
	return Objects{}
}

func (x *spoolIndex) objectsInDirectory(in *spooledDirectory) Objects {
	return Objects{names: &x.names, namespaces: x.namespaces, refs: in.refs}
}
