// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// The defaults of Options.
const (
	DefaultCallTimeout   = 5 * time.Minute
	DefaultIdleTimeout   = 5 * time.Minute
	DefaultFinishTimeout = time.Hour
)

// maxTransferTime bounds a Put or Get that makes continuous progress.
const maxTransferTime = 7 * 24 * time.Hour

// Options describe a Store. Action and Bucket are required.
type Options struct {
	// Action is the registered name of the ObjectStore, for errors.
	Action string
	// Bucket is passed to the plugin in every call.
	Bucket string
	// Log receives the logs of the plugin for calls whose ctx has no logger.
	Log logr.Logger
	// CallTimeout bounds every call that is not a transfer; DefaultCallTimeout if it is 0.
	CallTimeout time.Duration
	// IdleTimeout is how long a transfer may wait for the plugin; DefaultIdleTimeout if it
	// is 0.
	IdleTimeout time.Duration
	// FinishTimeout bounds the time from the end of the content until the plugin has stored
	// it. Some plugins upload only then. DefaultFinishTimeout if it is 0.
	FinishTimeout time.Duration
}

// Store implements objectstore.Store. It holds no open resources and is safe for concurrent
// use.
type Store struct {
	calls *caller.Caller[adapter.ObjectStore]
	opts  Options
}

var (
	_ objectstore.Store        = (*Store)(nil)
	_ objectstore.PrefixLister = (*Store)(nil)
)

// New returns the store behind a Caller.
func New(calls *caller.Caller[adapter.ObjectStore], opts Options) *Store {
	for field, value := range map[*time.Duration]time.Duration{
		&opts.CallTimeout: DefaultCallTimeout, &opts.IdleTimeout: DefaultIdleTimeout, &opts.FinishTimeout: DefaultFinishTimeout,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return &Store{calls: calls, opts: opts}
}

// Capabilities implements objectstore.Store: there are none.
func (s *Store) Capabilities() objectstore.Capabilities { return objectstore.Capabilities{} }

// callFunc is one call of the ObjectStore of the plugin.
type callFunc func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.ObjectStore) error

// callPlugin makes a call.
func (s *Store) callPlugin(ctx context.Context, fn callFunc) error {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = s.opts.Log
	}
	return s.calls.Do(ctx, process.Call{Log: log},
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string, action adapter.ObjectStore) error {
			return fn(ctx, conn, adapter.ItemCall{Action: s.opts.Action, CallID: callID}, action)
		})
}

// callWithTimeout makes a call that is not a transfer and may be retried.
func (s *Store) callWithTimeout(ctx context.Context, fn callFunc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	err := s.callPlugin(ctx, fn)
	if errors.As(err, new(*process.LostError)) && ctx.Err() == nil {
		err = s.callPlugin(ctx, fn) // in a new process
	}
	return err
}

func (s *Store) storedObject(key string) adapter.StoredObject {
	return adapter.StoredObject{Bucket: s.opts.Bucket, Key: key}
}

// objectExists asks the plugin whether the object exists.
func (s *Store) objectExists(ctx context.Context, key string) (bool, error) {
	var found bool
	err := s.callWithTimeout(ctx, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.ObjectStore) error {
		var err error
		found, err = action.Exists(ctx, conn, call, s.storedObject(key))
		return err
	})
	return found, err
}

// Stat implements objectstore.Store. It reads the whole object; the ETag is a digest of the
// content.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	r, err := s.getObject(ctx, "describing", key)
	if err != nil {
		return objectstore.Info{}, err
	}
	hash := sha256.New()
	size, err := io.Copy(hash, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return objectstore.Info{}, err
	}
	return objectstore.Info{Key: key, Size: size, ETag: hex.EncodeToString(hash.Sum(nil))}, nil
}

// Delete implements objectstore.Store with one call for each key.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := objectstore.ValidateKey(key); err != nil {
			return &objectstore.Error{Op: "deleting", Key: key, Err: err}
		}
	}
	for _, key := range keys {
		err := s.deleteObject(ctx, key)
		if err == nil {
			continue
		}
		// Some plugins report a missing object as an error, each in its own words.
		if found, existsErr := s.checkExists(ctx, err, key); existsErr != nil || found {
			return s.toStoreError(ctx, "deleting", key, err)
		}
	}
	return nil
}

func (s *Store) deleteObject(ctx context.Context, key string) error {
	return s.callWithTimeout(ctx, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.ObjectStore) error {
		return action.Delete(ctx, conn, call, s.storedObject(key))
	})
}
