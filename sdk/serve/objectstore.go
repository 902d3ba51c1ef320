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
// that goes on: authors are promised so. A plugin that serves at an address has one for
// each connection: operators of several clusters may call it, each about its own bucket.
type openStore struct {
	create func() (objectstorev1.ObjectStore, error)

	mu sync.RWMutex
	// unused was made to see that it can be; the first Init takes it.
	unused objectstorev1.ObjectStore
	// stores are those that were initialised; the only one of a process has no connection.
	stores map[*connection]objectstorev1.ObjectStore
}

// init initialises the store of a connection. Grapnel does that once on each, but Velero
// each time that it opens a location: one that is in use is replaced then, and the calls that
// are open go on with the one that they have.
func (o *openStore) init(ctx context.Context, config map[string]string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if config == nil {
		config = map[string]string{}
	}
	store := o.unused
	if store == nil {
		var err error
		if store, err = o.create(); err != nil {
			return fmt.Errorf("creating the action: %w", err)
		}
	}
	if err := store.Init(ctx, config); err != nil {
		return err
	}
	at := connectionOf(ctx)
	if o.stores == nil {
		o.stores = map[*connection]objectstorev1.ObjectStore{}
	}
	if _, again := o.stores[at]; !again {
		at.whenEnded(func() { o.drop(at) })
	}
	o.unused, o.stores[at] = nil, store
	return nil
}

// drop forgets the store of a connection that has ended.
func (o *openStore) drop(at *connection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.stores, at)
}

// get returns the store of the connection if it is initialised.
func (o *openStore) get(ctx context.Context) (objectstorev1.ObjectStore, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	store := o.stores[connectionOf(ctx)]
	if store == nil {
		return nil, refuse(codes.FailedPrecondition, errors.New("the object store is not initialised: call Init first, on the same connection"))
	}
	return store, nil
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
		store, err := opened.get(ctx)
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
