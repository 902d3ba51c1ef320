// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"io"
	"iter"
	"time"
)

// Store stores objects: byte sequences under a key, replaced only as a whole.
//
// All methods may be called from several goroutines at once, and several
// processes may use one store at the same time. Every store is read-after-write
// consistent: once Put or Delete has returned without an error, every later
// Get, Stat and List of any process sees its effect.
//
// All methods honor ctx: after it ends they return promptly with an error for which
// errors.Is(err, ctx.Err()) is true, unless a reader passed by the caller blocks. A caller
// that passes a pipe must close it.
//
// A store retries transient failures (network errors, HTTP 5xx, throttling) with back-off,
// for as long as ctx allows and at most a few tens of seconds, before it returns
// [ErrUnavailable].
type Store interface {
	// Put stores everything that r yields up to io.EOF under key, and replaces an existing
	// object. The size need not be known; memory stays bounded (see the stores for their
	// numbers).
	//
	// It is atomic: other callers see the previous object (or none) or the complete new
	// one, never a part. When Put returns nil, the object is durable. If r returns an error
	// or ctx ends, nothing becomes visible to List or Get, and the error wraps that of r or
	// ctx. There is one exception: if the last request or system call was already in
	// progress, the outcome of an error (a lost reply, ctx ended) is ambiguous, and the
	// complete object may exist. Callers that must know have to check.
	//
	// With opts.IfAbsent, Put fails with ErrExists if the key exists. If
	// Capabilities().PutIfAbsent is true, exactly one of any number of concurrent callers
	// succeeds. Otherwise the store checks before it writes, which is not atomic, so the
	// caller has to read the object back.
	Put(ctx context.Context, key string, r io.Reader, opts PutOptions) (Info, error)

	// Get opens the current version of the object for reading; a concurrent Put does not
	// mix into the stream. It fails with ErrNotExist if there is no object. If the stream
	// cannot be read to its end, Read returns an error other than io.EOF. The caller closes
	// the reader; ctx must stay alive until then.
	Get(ctx context.Context, key string) (io.ReadCloser, error)

	// Stat describes the object, or fails with ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys start with opts.Prefix, in ascending byte order of
	// their keys, without holding all of them in memory. With opts.Delimiter, keys that
	// contain it after the prefix are rolled up into one entry, in sorted position. A
	// prefix that matches nothing, such as a missing directory, results in an empty list.
	// Objects that are created or deleted meanwhile may or may not be listed. An error is
	// yielded once and ends the list.
	List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error]

	// Delete removes the objects. Missing keys are not an error, so a retried Delete
	// succeeds. Stores that can remove several objects with one request do so. After an
	// error, some objects may be deleted and others not.
	Delete(ctx context.Context, keys ...string) error

	// Capabilities returns what this store supports. It makes no request. A store that has
	// to try (S3) reports false until the first Put with IfAbsent, and the result of the
	// test from then on.
	Capabilities() Capabilities
}

// UploadAborter is implemented by stores in which an interrupted Put of a process that died
// can leave invisible parts that use space.
type UploadAborter interface {
	// AbortUploads aborts all unfinished uploads of objects whose keys start with prefix,
	// including those of other processes, and returns their number. A Put that is still
	// running there fails and leaves nothing behind.
	AbortUploads(ctx context.Context, prefix string) (int, error)
}

// PrefixLister is implemented by stores that find common prefixes faster if no objects are
// requested with them.
type PrefixLister interface {
	// CommonPrefixes yields what List with opts yields, without the objects.
	// opts.Delimiter must be set.
	CommonPrefixes(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error]
}

// SpaceReporter is implemented by stores that know their free space.
type SpaceReporter interface {
	// Space returns the size of the store and the free space. It returns the zero Space if
	// the store does not report it.
	Space(ctx context.Context) (Space, error)
}

// ExtendedStore is a Store with every optional interface. A wrapper that implements it
// hides no feature of the wrapped store. Calls that the wrapped store does not support have
// no effect and return no result.
type ExtendedStore interface {
	Store
	UploadAborter
	PrefixLister
	SpaceReporter
}

// Space is the capacity of a store in bytes. The zero value means that it is unknown.
type Space struct {
	Total, Free uint64
}

// PutOptions modify a Put. The zero value replaces an existing object.
type PutOptions struct {
	// IfAbsent makes Put fail with ErrExists if the key exists already.
	IfAbsent bool
}

// ListOptions select what List yields. The zero value selects everything.
type ListOptions struct {
	// Prefix selects the keys that start with it. It need not end at a slash.
	Prefix string
	// Delimiter is empty or "/". With "/", everything more than one level below Prefix is
	// rolled up, as in the listing of a directory.
	Delimiter string
	// StartAfter skips all entries that sort before it or equal it.
	StartAfter string
}

// UnknownSize is the Size of an object in the list of a store that lists only keys.
const UnknownSize = -1

// Info describes one object.
type Info struct {
	// Key is the key as given to Put.
	Key string
	// Size is the length in bytes. In a list it is UnknownSize if the store does not report
	// it (see Capabilities.Metadata).
	Size int64
	// ModTime is when the object was stored, by the store's clock; the zero time if the
	// store does not report it.
	ModTime time.Time
	// ETag changes whenever the content does. It has no other meaning and is not a digest.
	ETag string
}

// Entry is one line of a list: an object, or a common prefix.
type Entry struct {
	// Info describes the object. For a common prefix only Key is set, and
	// ends with the delimiter.
	Info
	// IsPrefix is true for a common prefix.
	IsPrefix bool
}

// Capabilities are properties in which stores differ.
type Capabilities struct {
	// PutIfAbsent reports that PutOptions.IfAbsent is atomic.
	PutIfAbsent bool
	// Metadata reports that the store knows the sizes and times of objects. A store that
	// does not lists only keys, never sets ModTime, and reads the whole object for a Stat.
	Metadata bool
}
