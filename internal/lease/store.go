// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"io"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// WrapObjectStore returns a store whose writes wait for the Fence. A long write waits
// before each part of its content, and before the end that makes the object visible.
func (f *Fence) WrapObjectStore(of objectstore.ExtendedStore) objectstore.ExtendedStore {
	if f == nil {
		return of
	}
	return &fencedStore{ExtendedStore: of, fence: f}
}

type fencedStore struct {
	objectstore.ExtendedStore
	fence *Fence
}

// Put stores an object; see objectstore.Store.
func (s *fencedStore) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if err := s.fence.WaitForLease(ctx); err != nil {
		return objectstore.Info{}, err
	}
	return s.ExtendedStore.Put(ctx, key, &fencedReader{ctx: ctx, from: r, fence: s.fence}, opts)
}

// Delete removes objects; see objectstore.Store.
func (s *fencedStore) Delete(ctx context.Context, keys ...string) error {
	if err := s.fence.WaitForLease(ctx); err != nil {
		return err
	}
	return s.ExtendedStore.Delete(ctx, keys...)
}

// AbortUploads aborts uploads; see objectstore.UploadAborter.
func (s *fencedStore) AbortUploads(ctx context.Context, prefix string) (int, error) {
	if err := s.fence.WaitForLease(ctx); err != nil {
		return 0, err
	}
	return s.ExtendedStore.AbortUploads(ctx, prefix)
}

// fencedReader is the content of a Put. A Put whose content cannot be read to the end makes nothing
// visible.
type fencedReader struct {
	ctx   context.Context //nolint:containedctx // the one of the Put that reads it; an io.Reader takes none
	from  io.Reader
	fence *Fence
}

// Read reads the next part. It waits again after that: an operator that was paused
// meanwhile must not report the end to a store.
func (r *fencedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if fenced := r.fence.WaitForLease(r.ctx); fenced != nil {
		return n, fenced
	}
	return n, err
}
