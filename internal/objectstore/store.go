// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"io"
	"iter"
	"time"
)

// Store keeps objects: byte sequences under a key, replaced only as a whole.
//
// All methods may be called from several goroutines at once, and several
// processes may use one store at the same time. Every store is read-after-write
// consistent: once Put or Delete has returned without an error, every later
// Get, Stat and List of any process sees its effect.
//
// All methods honor ctx: after it ends they return promptly with an error for
// which errors.Is(err, ctx.Err()) is true, unless a reader handed in by the
// caller blocks; a caller that hands in a pipe has to close it.
//
// A store retries what is worth retrying (network errors, HTTP 5xx, throttling)
// with back-off, for as long as ctx allows and at most a few tens of seconds,
// before it answers [ErrUnavailable].
type Store interface {
	// Put stores everything that r yields up to io.EOF under key, replacing
	// what was there. The size need not be known; memory stays bounded
	// (see the stores for their numbers).
	//
	// It is atomic: other callers see the previous object (or none) or the
	// complete new one, never a part. When Put returns nil the object is
	// durable. If r returns an error or ctx ends, nothing becomes visible,
	// nothing is left behind that List or Get would show, and the error wraps
	// that of r or ctx. One exception cannot be excluded: when the very last
	// request or system call was already under way, an error (a lost reply,
	// ctx ended) leaves open whether the object is there, whole. Callers that
	// must know have to look.
	//
	// With opts.IfAbsent Put fails with ErrExists if the key exists, and of
	// any number of concurrent callers exactly one succeeds, if
	// Capabilities().PutIfAbsent says so; otherwise the check is made before
	// the write and is not atomic, so that the caller has to read back.
	Put(ctx context.Context, key string, r io.Reader, opts PutOptions) (Info, error)

	// Get opens the object for reading as it is now; a concurrent Put does
	// not mix into the stream. It fails with ErrNotExist if there is none.
	// A stream that cannot be read to its end returns an error other than
	// io.EOF from Read. The caller closes the reader; ctx must stay alive
	// until then.
	Get(ctx context.Context, key string) (io.ReadCloser, error)

	// Stat describes the object, or fails with ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys start with opts.Prefix, in ascending
	// byte order of their keys, without holding all of them in memory. With
	// opts.Delimiter, keys that contain it after the prefix are rolled up
	// into one entry, sorted in at its place. A prefix that matches nothing,
	// also one that looks like a directory that is not there, is an empty list.
	// Objects that appear or vanish meanwhile may or may not be listed. An
	// error is yielded once and ends the list.
	List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error]

	// Delete removes the objects; keys that do not exist are fine, so a
	// repeated Delete succeeds. Stores that can remove several with one
	// request do so. After an error, some may be gone and some not.
	Delete(ctx context.Context, keys ...string) error

	// Capabilities says what this store can do. It makes no request. A store
	// that can only find out by trying (S3) reports false until the first
	// Put with IfAbsent and what it found from then on.
	Capabilities() Capabilities
}

// UploadAborter is implemented by stores in which an interrupted Put of a
// process that died can leave invisible parts behind that cost space.
type UploadAborter interface {
	// AbortUploads ends all unfinished uploads of objects whose keys start
	// with prefix, those of other processes included, and returns how many.
	// A Put that is still running there fails and leaves nothing behind.
	AbortUploads(ctx context.Context, prefix string) (int, error)
}

// PrefixLister is implemented by stores that would have to list everything below a
// prefix to find out which common prefixes there are, unless they are asked for
// nothing else.
type PrefixLister interface {
	// CommonPrefixes yields what List with opts yields, without the objects.
	// opts.Delimiter must be set.
	CommonPrefixes(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error]
}

// SpaceReporter is implemented by stores that know how much room is left.
type SpaceReporter interface {
	// Space returns the size of the store, and what is free for new objects. It is the
	// zero Space if the store does not tell.
	Space(ctx context.Context) (Space, error)
}

// ExtendedStore is a Store with every optional interface. A wrapper that implements it loses
// none of the store that it wraps: what that cannot do has no effect and no result.
type ExtendedStore interface {
	Store
	UploadAborter
	PrefixLister
	SpaceReporter
}

// Space is the room of a store in bytes. The zero value means that it is unknown.
type Space struct {
	Total, Free uint64
}

// PutOptions modify a Put. The zero value replaces what is there.
type PutOptions struct {
	// IfAbsent makes Put fail with ErrExists if the key exists already.
	IfAbsent bool
}

// ListOptions select what List yields. The zero value selects everything.
type ListOptions struct {
	// Prefix selects the keys that start with it. It need not end at a slash.
	Prefix string
	// Delimiter is empty or "/". With "/", everything that lies deeper than
	// one level below Prefix is rolled up, as a directory would show it.
	Delimiter string
	// StartAfter leaves out all entries that sort before or equal it.
	StartAfter string
}

// UnknownSize is the Size of an object in the list of a store that knows only keys.
const UnknownSize = -1

// Info describes one object.
type Info struct {
	// Key is the key as given to Put.
	Key string
	// Size is the length in bytes. In a list it is UnknownSize if the store does
	// not tell (see Capabilities.Metadata).
	Size int64
	// ModTime is when the object was stored, by the store's clock; the zero time
	// if the store does not tell.
	ModTime time.Time
	// ETag changes whenever the content does. It has no other meaning and is
	// not a digest.
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
	// PutIfAbsent says that PutOptions.IfAbsent is atomic.
	PutIfAbsent bool
	// Metadata says that the store knows the sizes and times of objects. One that
	// does not lists keys alone, never tells a ModTime, and reads the whole object
	// for a Stat.
	Metadata bool
}
