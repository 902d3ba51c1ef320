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

// Objects are the objects of a resource in one version, sorted by namespace and
// name. They share their memory with the Spool, which may be closed meanwhile.
type Objects struct {
	names      string
	namespaces []string
	refs       []ref
}

// Len returns how many there are.
func (o Objects) Len() int { return len(o.refs) }

// At returns the one at a place, from 0 on.
func (o Objects) At(at int) Spooled {
	r := o.refs[at]
	return Spooled{Namespace: o.namespaces[r.namespace], Name: o.name(r), offset: r.offset, size: int64(r.size)}
}

// All goes through them, with their places.
func (o Objects) All() iter.Seq2[int, Spooled] {
	return func(yield func(int, Spooled) bool) {
		for at := range o.refs {
			if !yield(at, o.At(at)) {
				return
			}
		}
	}
}

// Find returns the place of an object, or the one where it would be.
func (o Objects) Find(namespace, name string) (at int, found bool) {
	return slices.BinarySearchFunc(o.refs, Spooled{Namespace: namespace, Name: name}, func(r ref, wanted Spooled) int {
		return cmp.Or(strings.Compare(o.namespaces[r.namespace], wanted.Namespace), strings.Compare(o.name(r), wanted.Name))
	})
}

func (o Objects) name(r ref) string { return o.names[r.name:][:r.nameLength] }

// sort sorts the objects of a folder, which must differ.
func (o Objects) sort(in folder) error {
	compare := func(a, b ref) int {
		return cmp.Or(strings.Compare(o.namespaces[a.namespace], o.namespaces[b.namespace]), strings.Compare(o.name(a), o.name(b)))
	}
	slices.SortFunc(o.refs, compare)
	for i := range o.refs[min(1, len(o.refs)):] {
		if compare(o.refs[i], o.refs[i+1]) == 0 {
			return fmt.Errorf("%w: %s/%s of %s", ErrDuplicate, o.At(i).Namespace, o.At(i).Name, in.resource)
		}
	}
	return nil
}
