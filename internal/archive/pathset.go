// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"hash/maphash"
	"sync"
)

// pathSet is a set of paths. It stores a hash of 128 bits per path instead of the path: 20
// to 40 bytes for any length, and a probability below 10^-20 of confusing two of a billion
// paths. It is safe for concurrent use.
type pathSet struct {
	seeds [2]maphash.Seed

	mu     sync.Mutex
	hashes map[[2]uint64]struct{}
}

func newPathSet() *pathSet {
	return &pathSet{
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		hashes: map[[2]uint64]struct{}{},
	}
}

// addPath reports whether path was new.
func (s *pathSet) addPath(path []byte) bool {
	key := s.hashPath(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.hashes[key]; taken {
		return false
	}
	s.hashes[key] = struct{}{}
	return true
}

// hasPath reports whether path was added.
func (s *pathSet) hasPath(path []byte) bool {
	key := s.hashPath(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.hashes[key]
	return taken
}

func (s *pathSet) hashPath(path []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(s.seeds[0], path), maphash.Bytes(s.seeds[1], path)}
}
