// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Objects are the objects of a resource in one version, sorted by namespace and name. They
// share their memory with the Spool, and stay valid after it is closed.
type Objects struct {
	names      *nameTable
	namespaces []string
	refs       []objectRef
}

// Len returns the number of objects.
func (o Objects) Len() int { return len(o.refs) }

// At returns the object at an index, starting at 0.
func (o Objects) At(at int) SpooledObject {
	r := o.refs[at]
	return SpooledObject{Namespace: o.namespaces[r.namespace], Name: o.objectName(r), offset: r.offset, size: int64(r.size)}
}

// All iterates over the objects and their indexes.
func (o Objects) All() iter.Seq2[int, SpooledObject] {
	return func(yield func(int, SpooledObject) bool) {
		for at := range o.refs {
			if !yield(at, o.At(at)) {
				return
			}
		}
	}
}

// Find returns the index of an object, or the index at which it would be inserted.
func (o Objects) Find(namespace, name string) (at int, found bool) {
	return slices.BinarySearchFunc(o.refs, SpooledObject{Namespace: namespace, Name: name}, func(r objectRef, wanted SpooledObject) int {
		return cmp.Or(strings.Compare(o.namespaces[r.namespace], wanted.Namespace), strings.Compare(o.objectName(r), wanted.Name))
	})
}

func (o Objects) objectName(r objectRef) string { return o.names.nameAt(r) }

// sortDistinctObjects sorts the objects of a directory, which must be distinct.
func (o Objects) sortDistinctObjects(in directoryKey) error {
	compare := func(a, b objectRef) int {
		return cmp.Or(strings.Compare(o.namespaces[a.namespace], o.namespaces[b.namespace]), strings.Compare(o.objectName(a), o.objectName(b)))
	}
	slices.SortFunc(o.refs, compare)
	for i := range o.refs[min(1, len(o.refs)):] {
		if compare(o.refs[i], o.refs[i+1]) == 0 {
			return fmt.Errorf("%w: %s/%s of %s", ErrDuplicate, o.At(i).Namespace, o.At(i).Name, in.resource)
		}
	}
	return nil
}
