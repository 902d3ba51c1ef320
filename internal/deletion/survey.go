// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// survey is what there is in an archive.
type survey struct {
	// shown are the numbers of the entries that actions see: one for each object.
	shown bits
	// objects is how many there are, and resources what they are.
	objects   int64
	resources map[schema.GroupResource]struct{}
	// damage is why the archive can not be read to its end.
	damage error
}

// The copies of an object, from the one that is shown least.
const (
	otherVersion = iota
	preferredVersion
	withoutVersion
	ranks
)

func rankOf(id archive.Identity) int64 {
	switch {
	case id.Version == "":
		return withoutVersion
	case id.Preferred:
		return preferredVersion
	}
	return otherVersion
}

// object is what an object is called, whatever its version.
type object struct{ group, resource, namespace, name string }

// surveyOf goes through an archive once, to choose one copy of each object: the one
// without a version, or else the one in the preferred version, or else the first. It
// remembers 128 bits of hash instead of names.
func surveyOf(ctx context.Context, s *spool) (*survey, error) {
	found := &survey{resources: map[schema.GroupResource]struct{}{}}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	best := map[[2]uint64]int64{} // entry * ranks + rank
	var err error
	found.damage, err = s.walk(ctx, func(at int64, entry archive.Entry) error {
		if !entry.IsObject() {
			return nil
		}
		id := entry.Object
		key := object{id.Group, id.Resource, id.Namespace, id.Name}
		hash := [2]uint64{maphash.Comparable(seeds[0], key), maphash.Comparable(seeds[1], key)}
		if known, ok := best[hash]; !ok || known%ranks < rankOf(id) {
			best[hash] = at*ranks + rankOf(id)
		}
		if gr := resourceOf(id); !found.knows(gr) {
			// A part of the path would keep all of it.
			gr = schema.GroupResource{Group: strings.Clone(gr.Group), Resource: strings.Clone(gr.Resource)}
			found.resources[gr] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, chosen := range best {
		found.shown.set(chosen / ranks)
	}
	found.objects = int64(len(best))
	return found, nil
}

func (s *survey) knows(gr schema.GroupResource) bool {
	_, ok := s.resources[gr]
	return ok
}

func resourceOf(id archive.Identity) schema.GroupResource {
	return schema.GroupResource{Group: id.Group, Resource: id.Resource}
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(at int64) {
	for int64(len(*b)) <= at/64 {
		*b = append(*b, 0)
	}
	(*b)[at/64] |= 1 << (at % 64)
}

func (b bits) has(at int64) bool {
	return at/64 < int64(len(b)) && b[at/64]&(1<<(at%64)) != 0
}
