// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"hash/maphash"
	"sync"
)

// hashSet is a set of paths. It keeps 128 bits of hash per path instead of the
// path: 20 to 40 bytes whatever its length, and a chance of confusing two of a
// billion paths below 10^-20. It is safe for concurrent use.
type hashSet struct {
	seeds [2]maphash.Seed

	mu   sync.Mutex
	seen map[[2]uint64]struct{}
}

func newHashSet() *hashSet {
	return &hashSet{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen:  map[[2]uint64]struct{}{},
	}
}

// add reports whether path was new.
func (s *hashSet) add(path []byte) bool {
	key := s.key(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.seen[key]; taken {
		return false
	}
	s.seen[key] = struct{}{}
	return true
}

// has reports whether path was added.
func (s *hashSet) has(path []byte) bool {
	key := s.key(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.seen[key]
	return taken
}

func (s *hashSet) key(path []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(s.seeds[0], path), maphash.Bytes(s.seeds[1], path)}
}
