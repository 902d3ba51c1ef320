// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

// openStore is an ObjectStore that is not called before it was initialised, nor while
// that goes on: authors are promised so.
type openStore struct {
	create func() (objectstorev1.ObjectStore, error)

	mu    sync.RWMutex
	ready bool
	store objectstorev1.ObjectStore
}

// init initialises the store. Grapnel does that once in a process, but Velero each time
// that it opens a location: one that is in use is replaced then, and the calls that are
// open go on with the one that they have.
func (o *openStore) init(ctx context.Context, config map[string]string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if config == nil {
		config = map[string]string{}
	}
	store := o.store
	if o.ready {
		var err error
		if store, err = o.create(); err != nil {
			return fmt.Errorf("creating the action: %w", err)
		}
	}
	if err := store.Init(ctx, config); err != nil {
		return err
	}
	o.store, o.ready = store, true
	return nil
}

// get returns the store if it is initialised.
func (o *openStore) get() (objectstorev1.ObjectStore, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if !o.ready {
		return nil, refuse(codes.FailedPrecondition, errors.New("the object store is not initialised: call Init first"))
	}
	return o.store, nil
}

// objectStoreV1 serves version 1 of ObjectStore.
type objectStoreV1 struct {
	objectstorepb.UnimplementedObjectStoreServer
	metadataService
}

func (o objectStoreV1) Init(ctx context.Context, in *objectstorepb.InitRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, o.server, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store *openStore) (*emptypb.Empty, error) {
			return &emptypb.Empty{}, store.init(ctx, in.GetConfig())
		})
}

// serveStore is serveCall for a store that has to be initialised.
func serveStore[R any](
	ctx context.Context, o objectStoreV1, in incoming, do func(ctx context.Context, store objectstorev1.ObjectStore) (R, error),
) (R, error) {
	return serveCall(ctx, o.server, in, func(ctx context.Context, opened *openStore) (R, error) {
		store, err := opened.get()
		if err != nil {
			var none R
			return none, err
		}
		resp, err := do(ctx, store)
		if errors.Is(err, objectstorev1.ErrNotExist) {
			err = refuse(codes.NotFound, err)
		}
		return resp, err
	})
}

func (o objectStoreV1) ObjectExists(ctx context.Context, in *objectstorepb.ObjectExistsRequest) (*objectstorepb.ObjectExistsResponse, error) {
	return serveStore(ctx, o, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ObjectExistsResponse, error) {
			exists, err := store.ObjectExists(ctx, in.GetBucket(), in.GetKey())
			return &objectstorepb.ObjectExistsResponse{Exists: exists}, err
		})
}

func (o objectStoreV1) ListCommonPrefixes(
	ctx context.Context, in *objectstorepb.ListCommonPrefixesRequest,
) (*objectstorepb.ListCommonPrefixesResponse, error) {
	return serveStore(ctx, o, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ListCommonPrefixesResponse, error) {
			prefixes, err := store.ListCommonPrefixes(ctx, in.GetBucket(), in.GetPrefix(), in.GetDelimiter())
			return &objectstorepb.ListCommonPrefixesResponse{Prefixes: prefixes}, err
		})
}

func (o objectStoreV1) ListObjects(ctx context.Context, in *objectstorepb.ListObjectsRequest) (*objectstorepb.ListObjectsResponse, error) {
	return serveStore(ctx, o, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ListObjectsResponse, error) {
			keys, err := store.ListObjects(ctx, in.GetBucket(), in.GetPrefix())
			return &objectstorepb.ListObjectsResponse{Keys: keys}, err
		})
}

func (o objectStoreV1) DeleteObject(ctx context.Context, in *objectstorepb.DeleteObjectRequest) (*emptypb.Empty, error) {
	return serveStore(ctx, o, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*emptypb.Empty, error) {
			return &emptypb.Empty{}, store.DeleteObject(ctx, in.GetBucket(), in.GetKey())
		})
}

func (o objectStoreV1) CreateSignedURL(
	ctx context.Context, in *objectstorepb.CreateSignedURLRequest,
) (*objectstorepb.CreateSignedURLResponse, error) {
	return serveStore(ctx, o, o.received(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.CreateSignedURLResponse, error) {
			url, err := store.CreateSignedURL(ctx, in.GetBucket(), in.GetKey(), time.Duration(in.GetTtl()))
			return &objectstorepb.CreateSignedURLResponse{Url: url}, err
		})
}
