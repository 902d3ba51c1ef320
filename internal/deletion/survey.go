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

// archiveSurvey is an overview of an archive.
type archiveSurvey struct {
	// selectedEntries are the numbers of the entries that actions receive: one for each object.
	selectedEntries bitset
	// objectCount is the number of objects, and resources are their resources.
	objectCount int64
	resources   map[schema.GroupResource]struct{}
	// damage is why the archive cannot be read to its end.
	damage error
}

// The ranks of the copies of an object, the least preferred first.
const (
	otherVersion = iota
	preferredVersion
	withoutVersion
	rankCount
)

func itemVersionRank(id archive.Identity) int64 {
	switch {
	case id.Version == "":
		return withoutVersion
	case id.Preferred:
		return preferredVersion
	}
	return otherVersion
}

// objectKey identifies an object, whatever its version.
type objectKey struct{ group, resource, namespace, name string }

// surveyArchive goes through an archive once, to select one copy of each object: the one
// without a version, or else the one in the preferred version, or else the first. It
// remembers 128 bits of hash instead of names.
func surveyArchive(ctx context.Context, s *spool) (*archiveSurvey, error) {
	found := &archiveSurvey{resources: map[schema.GroupResource]struct{}{}}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	best := map[[2]uint64]int64{} // entry * ranks + rank
	var err error
	found.damage, err = s.walkArchiveEntries(ctx, func(at int64, entry archive.Entry) error {
		if !entry.IsObject() {
			return nil
		}
		id := entry.Object
		key := objectKey{id.Group, id.Resource, id.Namespace, id.Name}
		hash := [2]uint64{maphash.Comparable(seeds[0], key), maphash.Comparable(seeds[1], key)}
		if known, ok := best[hash]; !ok || known%rankCount < itemVersionRank(id) {
			best[hash] = at*rankCount + itemVersionRank(id)
		}
		if gr := toGroupResource(id); !found.hasResource(gr) {
			// A substring of the path would keep the whole path in memory.
			gr = schema.GroupResource{Group: strings.Clone(gr.Group), Resource: strings.Clone(gr.Resource)}
			found.resources[gr] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, chosen := range best {
		found.selectedEntries.setBit(chosen / rankCount)
	}
	found.objectCount = int64(len(best))
	return found, nil
}

func (s *archiveSurvey) hasResource(gr schema.GroupResource) bool {
	_, ok := s.resources[gr]
	return ok
}

func toGroupResource(id archive.Identity) schema.GroupResource {
	return schema.GroupResource{Group: id.Group, Resource: id.Resource}
}

// bitset is a set of small numbers.
type bitset []uint64

func (b *bitset) setBit(at int64) {
	for int64(len(*b)) <= at/64 {
		*b = append(*b, 0)
	}
	(*b)[at/64] |= 1 << (at % 64)
}

func (b bitset) hasBit(at int64) bool {
	return at/64 < int64(len(b)) && b[at/64]&(1<<(at%64)) != 0
}
