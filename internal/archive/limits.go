// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The limits of an archive, for writers and readers: an archive that was written can be
// read with the same Limits.
const (
	DefaultEntries = 20_000_000
	// DefaultEntryBytes is far above what the API server stores: it accepts requests of 3
	// MiB, and etcd objects of 1.5 MiB. An aggregated API may have larger ones.
	DefaultEntryBytes = 16 << 20
	// DefaultTotalBytes is below the capacity of the scratch volume of config/manager. etcd
	// recommends at most 8 GiB, and an archive has each object twice.
	DefaultTotalBytes = 16 << 30
	DefaultPathBytes  = 1024
	// DefaultIndexBytes is less than a fifth of the memory limit of the operator's
	// container. Go's garbage collector may use as much again. An object with a usual name
	// takes 80 bytes.
	DefaultIndexBytes = 192 << 20
	// DefaultRatio is the maximum ratio of expanded to compressed bytes beyond the first
	// DefaultRatioFrom bytes. Archives of clusters have ratios of 10 to 50.
	DefaultRatio     = 200
	DefaultRatioFrom = 1 << 30
)

var (
	// ErrLimitExceeded is returned for an archive that exceeds one of its Limits as a whole.
	ErrLimitExceeded = errors.New("archive exceeds limit")
	// ErrTooLarge is returned by Writer.AddObject for an object that no archive may
	// contain.
	ErrTooLarge = errors.New("object is too large for an archive")
)

// Limits bound what Writer writes, and what Walk and NewSpool accept. A zero field means
// its default.
type Limits struct {
	// Entries in the archive.
	Entries int64
	// EntryBytes is the size of one file.
	EntryBytes int64
	// TotalBytes of the archive after decompression, and before.
	TotalBytes int64
	// PathBytes is the length of one path.
	PathBytes int
	// IndexBytes is the memory for the index of a Spool.
	IndexBytes int64
	// Ratio is the maximum average ratio of expanded to compressed bytes, beyond the first
	// RatioFrom bytes.
	Ratio, RatioFrom int64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Entries: cmp.Or(l.Entries, DefaultEntries), EntryBytes: cmp.Or(l.EntryBytes, DefaultEntryBytes),
		TotalBytes: cmp.Or(l.TotalBytes, DefaultTotalBytes), PathBytes: cmp.Or(l.PathBytes, DefaultPathBytes),
		IndexBytes: cmp.Or(l.IndexBytes, DefaultIndexBytes),
		Ratio:      cmp.Or(l.Ratio, DefaultRatio), RatioFrom: cmp.Or(l.RatioFrom, DefaultRatioFrom),
	}
}

// checkRatio rejects an archive with too large a compression ratio.
func (l Limits) checkRatio(compressed, expanded int64) error {
	if beyond := expanded - l.RatioFrom; beyond > 0 && beyond/l.Ratio > compressed {
		return fmt.Errorf("%w: %d compressed bytes expand to %d, more than %d for each", ErrLimitExceeded, compressed, expanded, l.Ratio)
	}
	return nil
}

// countingReader counts the bytes that it reads, and fails after too many.
type countingReader struct {
	r     io.Reader
	read  int64
	limit int64
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.read += int64(n); c.read > c.limit {
		return n, fmt.Errorf("%w: more than %d compressed bytes", ErrLimitExceeded, c.limit)
	}
	return n, err
}

// indexMemory is the memory of an index in bytes, as an upper bound. It includes the copy
// while a slice grows by a quarter, and the overhead of the first object of a directory or
// namespace. A Writer counts the same, so that every archive that it completes can be
// spooled.
type indexMemory struct{ used, limit int64 }

const (
	refCost       = 56
	namespaceCost = 160
	directoryCost = 640
)

func (f *indexMemory) addObjectRef() { f.used += refCost }

func (f *indexMemory) addObjectName(name string) { f.used += int64(len(name)) }

func (f *indexMemory) addNamespace(name string) { f.used += namespaceCost + int64(len(name)) }

func (f *indexMemory) addDirectory(nameBytes int) { f.used += directoryCost + int64(nameBytes) }

// checkLimit returns ErrLimitExceeded if the objects so far need too much memory.
func (f *indexMemory) checkLimit(objects int64) error {
	if f.used > f.limit {
		return fmt.Errorf("%w: too many objects for the index after %d", ErrLimitExceeded, objects)
	}
	return nil
}

// limitChecker checks written data against the Limits of its readers.
type limitChecker struct {
	limits      Limits
	entries     int64
	memory      indexMemory
	directories map[Identity]struct{}
	namespaces  map[string]struct{}
	// last is the last added object, if its second copy may follow.
	last Identity
}

func newLimitChecker(limits Limits) *limitChecker {
	return &limitChecker{
		limits: limits, memory: indexMemory{limit: limits.IndexBytes},
		directories: map[Identity]struct{}{}, namespaces: map[string]struct{}{"": {}},
	}
}

// checkObjectSize returns ErrTooLarge for an object that no archive may contain.
func (t *limitChecker) checkObjectSize(pathBytes, contentBytes int) error {
	switch {
	case int64(contentBytes) > t.limits.EntryBytes:
		return fmt.Errorf("%w: it has %d bytes; the limit is %d", ErrTooLarge, contentBytes, t.limits.EntryBytes)
	case pathBytes > t.limits.PathBytes:
		return fmt.Errorf("%w: its path has %d bytes; the limit is %d; use a shorter name", ErrTooLarge, pathBytes, t.limits.PathBytes)
	}
	return nil
}

// countFile counts a file with which the archive has totalBytes bytes.
func (t *limitChecker) countFile(totalBytes int64) error {
	t.entries++
	switch {
	case t.entries > t.limits.Entries:
		return fmt.Errorf("%w: more than %d files", ErrLimitExceeded, t.limits.Entries)
	case totalBytes > t.limits.TotalBytes:
		return fmt.Errorf("%w: more than %d bytes before compression", ErrLimitExceeded, t.limits.TotalBytes)
	}
	return nil
}

// countObject counts one copy of an object.
func (t *limitChecker) countObject(id Identity) error {
	directory := Identity{Group: id.Group, Version: id.Version, Resource: id.Resource, Preferred: id.Preferred}
	if _, known := t.directories[directory]; !known {
		t.directories[directory] = struct{}{}
		t.memory.addDirectory(len(id.GroupResource()) + len(id.Version))
	}
	if _, known := t.namespaces[id.Namespace]; !known {
		t.namespaces[strings.Clone(id.Namespace)] = struct{}{}
		t.memory.addNamespace(id.Namespace)
	}
	if id.isCopyOf(t.last) {
		t.last = Identity{}
		return nil
	}
	t.last = id
	t.memory.addObjectRef()
	t.memory.addObjectName(id.Name)
	return t.memory.checkLimit(t.entries)
}

// isCopyOf reports whether two files contain the same object in its preferred version, one
// of them without the version in its path.
func (id Identity) isCopyOf(other Identity) bool {
	return id.Name == other.Name && id.Namespace == other.Namespace && id.Resource == other.Resource && id.Group == other.Group &&
		(id.Version == "" && other.Preferred || other.Version == "" && id.Preferred)
}
