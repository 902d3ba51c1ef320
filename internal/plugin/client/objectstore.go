// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// The defaults of StoreOptions.
const (
	DefaultStoreCallTimeout = 5 * time.Minute
	DefaultIdleTimeout      = 5 * time.Minute
	DefaultFinishTimeout    = time.Hour
)

// maxTransferTime bounds a Put or Get that makes continuous progress.
const maxTransferTime = 7 * 24 * time.Hour

// StoreOptions describe a Store. Action and Bucket are required.
type StoreOptions struct {
	// Action is the registered name of the ObjectStore, for errors.
	Action string
	// Bucket is passed to the plugin in every call.
	Bucket string
	// Log receives the logs of the plugin for calls whose ctx has no logger.
	Log logr.Logger
	// CallTimeout bounds every call that is not a transfer; DefaultStoreCallTimeout if it is 0.
	CallTimeout time.Duration
	// IdleTimeout is how long a transfer may wait for the plugin; DefaultIdleTimeout if it
	// is 0.
	IdleTimeout time.Duration
	// FinishTimeout bounds the time from the end of the content until the plugin has stored
	// it. Some plugins upload only then. DefaultFinishTimeout if it is 0.
	FinishTimeout time.Duration
}

// Store is an object store provided by a plugin of kind ObjectStore, for example one of Velero's.
//
// It makes every call through a Caller. The Caller knows the process that
// currently provides the store, and restarts that process after it exits. By then the
// process has received the configuration of the location. Store translates the answers of
// plugins to the contract of package objectstore.
//
// The interface of these plugins has limits that Store cannot remove:
//
//   - There is no put-if-absent, and a list returns only keys: see
//     objectstore.Capabilities. Stat reads the whole object.
//   - A list arrives as one message. Store sorts it.
//   - An error is a text. Store asks the plugin whether an object exists. If access is
//     denied, or the bucket does not exist, the caller gets the text of the plugin.
//
// A list, an existence check or a deletion has a deadline. A Put or Get may take any time
// while it makes progress. The time in which the caller reads or writes the content does
// not count. If the process exits during a call, Store retries the call once where that is
// safe; it leaves the retry of Put and Get to the caller.
//
// It is NOT concerned with processes, configuration or credentials: see package
// internal/storage/location and the plugin catalog.
type Store struct {
	calls *Caller[ObjectStore]
	opts  StoreOptions
}

var (
	_ objectstore.Store        = (*Store)(nil)
	_ objectstore.PrefixLister = (*Store)(nil)
)

// NewStore returns the store behind a Caller.
func NewStore(calls *Caller[ObjectStore], opts StoreOptions) *Store {
	for field, value := range map[*time.Duration]time.Duration{
		&opts.CallTimeout: DefaultStoreCallTimeout, &opts.IdleTimeout: DefaultIdleTimeout, &opts.FinishTimeout: DefaultFinishTimeout,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return &Store{calls: calls, opts: opts}
}

// Capabilities implements objectstore.Store: there are none.
func (s *Store) Capabilities() objectstore.Capabilities { return objectstore.Capabilities{} }

// storeCallFunc is one call of the ObjectStore of the plugin.
type storeCallFunc func(ctx context.Context, call ItemCall, action ObjectStore) error

// callPlugin makes a call.
func (s *Store) callPlugin(ctx context.Context, fn storeCallFunc) (err error) {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = s.opts.Log
	}
	call, err := s.calls.Begin(ctx, host.Call{Log: log})
	if err != nil {
		return err
	}
	defer call.End(&err)
	return fn(ctx, ItemCall{Conn: call.Conn(), Action: s.opts.Action, CallID: call.ID()}, call.Action)
}

// callWithTimeout makes a call that is not a transfer and may be retried.
func (s *Store) callWithTimeout(ctx context.Context, fn storeCallFunc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	err := s.callPlugin(ctx, fn)
	if errors.As(err, new(*host.LostError)) && ctx.Err() == nil {
		err = s.callPlugin(ctx, fn) // in a new process
	}
	return err
}

func (s *Store) storedObject(key string) StoredObject {
	return StoredObject{Bucket: s.opts.Bucket, Key: key}
}

// objectExists asks the plugin whether the object exists.
func (s *Store) objectExists(ctx context.Context, key string) (bool, error) {
	var found bool
	err := s.callWithTimeout(ctx, func(ctx context.Context, call ItemCall, action ObjectStore) error {
		var err error
		found, err = action.Exists(ctx, call, s.storedObject(key))
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
	return s.callWithTimeout(ctx, func(ctx context.Context, call ItemCall, action ObjectStore) error {
		return action.Delete(ctx, call, s.storedObject(key))
	})
}
