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

// storesByConnection is an ObjectStore that is called neither before nor during its
// initialization, as the SDK promises to authors. A plugin that serves at an address has one
// store for each connection: operators of several clusters may call it, each for its own
// bucket.
type storesByConnection struct {
	create func() (objectstorev1.ObjectStore, error)

	// mu is not held while the author's code runs: a call that hangs for one connection
	// must not block the others.
	mu sync.RWMutex
	// unused was created to check that creation works; the first Init uses it.
	unused objectstorev1.ObjectStore
	// stores has the store of each connection; the only connection of a process is nil.
	stores map[*connection]*connectionStore
}

// connectionStore is the store of one connection.
type connectionStore struct {
	// initMu is held while Init runs.
	initMu sync.Mutex
	// initialized is the store that was initialized last, guarded by the mutex of the
	// storesByConnection.
	initialized objectstorev1.ObjectStore
}

// initStoreForConnection initializes the store of a connection. Grapnel calls Init once per
// connection, but Velero calls it each time it opens a location. A store that is in use is replaced
// then, and open calls continue with the old store.
func (o *storesByConnection) initStoreForConnection(ctx context.Context, config map[string]string) error {
	own := o.storeForConnection(connectionFromContext(ctx))
	own.initMu.Lock()
	defer own.initMu.Unlock()
	if config == nil {
		config = map[string]string{}
	}
	unused := o.swapUnusedStore(nil)
	defer func() {
		if unused != nil { // after a panic, too
			o.swapUnusedStore(unused)
		}
	}()
	store := unused
	if store == nil {
		var err error
		if store, err = o.create(); err != nil {
			return fmt.Errorf("creating the action: %w", err)
		}
	}
	if err := store.Init(ctx, config); err != nil {
		return err
	}
	unused = nil
	o.mu.Lock()
	defer o.mu.Unlock()
	own.initialized = store
	return nil
}

// storeForConnection returns the store of a connection. It lives until the connection ends.
func (o *storesByConnection) storeForConnection(at *connection) *connectionStore {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.stores[at]
	if own != nil {
		return own
	}
	if o.stores == nil {
		o.stores = map[*connection]*connectionStore{}
	}
	own = &connectionStore{}
	o.stores[at] = own
	at.addCloseHook(func() { o.removeConnectionStore(at) })
	return own
}

// swapUnusedStore replaces the unused store and returns the previous one.
func (o *storesByConnection) swapUnusedStore(store objectstorev1.ObjectStore) objectstorev1.ObjectStore {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.unused
	o.unused = store
	return before
}

// removeConnectionStore removes the store of a connection that has ended.
func (o *storesByConnection) removeConnectionStore(at *connection) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.stores, at)
}

// initializedStore returns the store of the connection if it is initialized.
func (o *storesByConnection) initializedStore(ctx context.Context) (objectstorev1.ObjectStore, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	own := o.stores[connectionFromContext(ctx)]
	if own == nil || own.initialized == nil {
		return nil, newStatusError(codes.FailedPrecondition, errors.New("the object store is not initialized: call Init first, on the same connection"))
	}
	return own.initialized, nil
}

// objectStoreV1 serves version 1 of ObjectStore.
type objectStoreV1 struct {
	objectstorepb.UnimplementedObjectStoreServer
	metadataService
}

func (o objectStoreV1) Init(ctx context.Context, in *objectstorepb.InitRequest) (*emptypb.Empty, error) {
	return serveCall(ctx, o.server, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store *storesByConnection) (*emptypb.Empty, error) {
			return &emptypb.Empty{}, store.initStoreForConnection(ctx, in.GetConfig())
		})
}

// serveStoreCall is serveCall for a store that must be initialized.
func serveStoreCall[R any](
	ctx context.Context, o objectStoreV1, in callInfo, do func(ctx context.Context, store objectstorev1.ObjectStore) (R, error),
) (R, error) {
	return serveCall(ctx, o.server, in, func(ctx context.Context, opened *storesByConnection) (R, error) {
		store, err := opened.initializedStore(ctx)
		if err != nil {
			var none R
			return none, err
		}
		resp, err := do(ctx, store)
		if errors.Is(err, objectstorev1.ErrNotExist) {
			err = newStatusError(codes.NotFound, err)
		}
		return resp, err
	})
}

func (o objectStoreV1) ObjectExists(ctx context.Context, in *objectstorepb.ObjectExistsRequest) (*objectstorepb.ObjectExistsResponse, error) {
	return serveStoreCall(ctx, o, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ObjectExistsResponse, error) {
			exists, err := store.ObjectExists(ctx, in.GetBucket(), in.GetKey())
			return &objectstorepb.ObjectExistsResponse{Exists: exists}, err
		})
}

func (o objectStoreV1) ListCommonPrefixes(
	ctx context.Context, in *objectstorepb.ListCommonPrefixesRequest,
) (*objectstorepb.ListCommonPrefixesResponse, error) {
	return serveStoreCall(ctx, o, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ListCommonPrefixesResponse, error) {
			prefixes, err := store.ListCommonPrefixes(ctx, in.GetBucket(), in.GetPrefix(), in.GetDelimiter())
			return &objectstorepb.ListCommonPrefixesResponse{Prefixes: prefixes}, err
		})
}

func (o objectStoreV1) ListObjects(ctx context.Context, in *objectstorepb.ListObjectsRequest) (*objectstorepb.ListObjectsResponse, error) {
	return serveStoreCall(ctx, o, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.ListObjectsResponse, error) {
			keys, err := store.ListObjects(ctx, in.GetBucket(), in.GetPrefix())
			return &objectstorepb.ListObjectsResponse{Keys: keys}, err
		})
}

func (o objectStoreV1) DeleteObject(ctx context.Context, in *objectstorepb.DeleteObjectRequest) (*emptypb.Empty, error) {
	return serveStoreCall(ctx, o, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*emptypb.Empty, error) {
			return &emptypb.Empty{}, store.DeleteObject(ctx, in.GetBucket(), in.GetKey())
		})
}

func (o objectStoreV1) CreateSignedURL(
	ctx context.Context, in *objectstorepb.CreateSignedURLRequest,
) (*objectstorepb.CreateSignedURLResponse, error) {
	return serveStoreCall(ctx, o, o.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, store objectstorev1.ObjectStore) (*objectstorepb.CreateSignedURLResponse, error) {
			url, err := store.CreateSignedURL(ctx, in.GetBucket(), in.GetKey(), time.Duration(in.GetTtl()))
			return &objectstorepb.CreateSignedURLResponse{Url: url}, err
		})
}
