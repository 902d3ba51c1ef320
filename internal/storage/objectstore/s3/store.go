// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Store implements objectstore.Store in one bucket. It is safe for concurrent use. A Put
// holds up to three parts in memory.
type Store struct {
	client     *minio.Core
	bucket     string
	partSize   int
	maxParts   int
	transport  http.RoundTripper
	encryption encrypt.ServerSide
	checksum   ChecksumAlgorithm

	conditionalWrites atomic.Int32 // whether the server supports conditional writes
}

// States of Store.conditionalWrites.
const (
	conditionalUnknown int32 = iota
	conditionalYes
	conditionalNo
)

var (
	_ objectstore.Store         = (*Store)(nil)
	_ objectstore.UploadAborter = (*Store)(nil)
)

// Close closes idle connections. The store stays usable.
func (s *Store) Close() error {
	if t, ok := s.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Capabilities implements objectstore.Store.
func (s *Store) Capabilities() objectstore.Capabilities {
	return objectstore.Capabilities{PutIfAbsent: s.conditionalWrites.Load() == conditionalYes, Metadata: true}
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	ctx, end := s.withStallWatch(ctx)
	r := &objectReader{ctx: ctx, endWatch: end, store: s, key: key}
	if err := r.openBodyAtOffset(); err != nil {
		defer end()
		return nil, toStoreError("getting", key, toStallError(ctx, err))
	}
	return r, nil
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	ctx, end := s.withStallWatch(ctx)
	defer end()
	stat, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return objectstore.Info{}, toStoreError("describing", key, toStallError(ctx, err))
	}
	return toObjectInfo(stat), nil
}

func toObjectInfo(o minio.ObjectInfo) objectstore.Info {
	return objectstore.Info{Key: o.Key, Size: o.Size, ModTime: o.LastModified, ETag: o.ETag}
}

// List implements objectstore.Store with one request per 1000 entries. With a delimiter, it
// holds the pages of one level in memory until they are sorted.
func (s *Store) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		ctx, end := s.withStallWatch(ctx)
		defer end()
		fail := func(err error) {
			yield(objectstore.Entry{}, toStoreError("listing", opts.Prefix, toStallError(ctx, err)))
		}
		if err := opts.Validate(); err != nil {
			yield(objectstore.Entry{}, &objectstore.Error{Op: "listing", Key: opts.Prefix, Err: err})
			return
		}
		sorter := &entrySorter{yield: yield, after: opts.StartAfter}
		owner := false
		for object := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{
			Prefix:     opts.Prefix,
			StartAfter: opts.StartAfter,
			Recursive:  opts.Delimiter == "",
			FetchOwner: &owner,
		}) {
			if object.Err != nil {
				fail(object.Err)
				return
			}
			if !sorter.addEntry(toListEntry(object, opts)) {
				return
			}
		}
		// The client silently ends a list when the context ends.
		if err := ctx.Err(); err != nil {
			fail(err)
			return
		}
		sorter.flushGroup()
	}
}

func toListEntry(object minio.ObjectInfo, opts objectstore.ListOptions) objectstore.Entry {
	isPrefix := opts.Delimiter != "" && object.LastModified.IsZero() && strings.HasSuffix(object.Key, opts.Delimiter)
	if isPrefix {
		return objectstore.Entry{Info: objectstore.Info{Key: object.Key}, IsPrefix: true}
	}
	return objectstore.Entry{Info: toObjectInfo(object)}
}

// entrySorter merges objects and common prefixes. For each page, the client yields all
// objects and then all prefixes. Each page sorts before the next, so an object after a
// prefix begins a new group.
type entrySorter struct {
	yield   func(objectstore.Entry, error) bool
	after   string
	group   []objectstore.Entry
	last    string // Key of the last entry yielded.
	started bool
}

func (s *entrySorter) addEntry(e objectstore.Entry) bool {
	if n := len(s.group); n > 0 && s.group[n-1].IsPrefix && !e.IsPrefix {
		if !s.flushGroup() {
			return false
		}
	}
	s.group = append(s.group, e)
	return true
}

// flushGroup yields the group. Some servers repeat a prefix on the next page, or ignore
// StartAfter for prefixes.
func (s *entrySorter) flushGroup() bool {
	slices.SortStableFunc(s.group, func(a, b objectstore.Entry) int { return cmp.Compare(a.Key, b.Key) })
	for _, e := range s.group {
		if e.Key <= s.after || (s.started && e.Key == s.last) {
			continue
		}
		s.started, s.last = true, e.Key
		if !s.yield(e, nil) {
			return false
		}
	}
	s.group = s.group[:0]
	return true
}

// Delete implements objectstore.Store with one request per 1000 keys.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	ctx, end := s.withStallWatch(ctx)
	defer end()
	return s.removeObjects(ctx, keys)
}

func (s *Store) removeObjects(ctx context.Context, keys []string) error {
	const op = "deleting"
	switch len(keys) {
	case 0:
		return nil
	case 1:
		err := s.client.RemoveObject(ctx, s.bucket, keys[0], minio.RemoveObjectOptions{})
		if err != nil && !hasErrorCode(err, "NoSuchKey") {
			return toStoreError(op, keys[0], toStallError(ctx, err))
		}
		return nil
	}
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := s.client.RemoveObjectsWithIter(ctx, s.bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return toStoreError(op, keys[0], toStallError(ctx, err))
	}
	var errs []error
	for result := range results {
		if result.Err != nil && !hasErrorCode(result.Err, "NoSuchKey") {
			errs = append(errs, toStoreError(op, result.ObjectName, result.Err))
		}
	}
	// The client stops silently when the context ends.
	if err := ctx.Err(); err != nil {
		return toStoreError(op, keys[0], toStallError(ctx, err))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d of %d objects remain: %w", len(errs), len(keys), errs[0])
	}
	return nil
}

// AbortUploads implements objectstore.UploadAborter. MinIO servers list
// unfinished uploads only for a prefix that is a whole key.
func (s *Store) AbortUploads(ctx context.Context, prefix string) (int, error) {
	const op = "aborting uploads of"
	ctx, end := s.withStallWatch(ctx)
	defer end()
	n := 0
	keyMarker, idMarker := "", ""
	for {
		page, err := s.client.ListMultipartUploads(ctx, s.bucket, prefix, keyMarker, idMarker, "", 1000)
		if hasErrorCode(err, "NoSuchUpload") {
			return n, nil // some servers report "none" this way
		}
		if err != nil {
			return n, toStoreError(op, prefix, toStallError(ctx, err))
		}
		for _, upload := range page.Uploads {
			err := s.client.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID)
			if err != nil && !hasErrorCode(err, "NoSuchUpload") {
				return n, toStoreError(op, upload.Key, toStallError(ctx, err))
			}
			n++
		}
		if !page.IsTruncated {
			return n, nil
		}
		if page.NextKeyMarker == keyMarker && page.NextUploadIDMarker == idMarker {
			return n, toStoreError(op, prefix, errors.New("the server's list of uploads does not advance"))
		}
		keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
	}
}
