// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the first version of the interface of an ObjectStore, which keeps
// backups. It is served as Velero's ObjectStore.
//
// Implement [ObjectStore] and register it with
// serve.Server.RegisterObjectStoreV1; a BackupStorageLocation names it.
package v1

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotExist is what GetObject returns, perhaps wrapped, if there is no object.
var ErrNotExist = errors.New("the object does not exist")

// ObjectStore keeps objects in buckets. There is one process, and in it one instance,
// per location; its methods are called concurrently after Init.
type ObjectStore interface {
	// Init is called before all other methods, and again if it failed, with what the
	// location says and the keys "bucket", "prefix", "caCert" and "credentialsFile" if
	// they are set. An error says what is wrong with it. Keys that other methods get
	// begin with the prefix already.
	Init(ctx context.Context, config map[string]string) error
	// PutObject stores an object, or replaces one. What is stored is visible as a
	// whole when it returns nil, and not at all if body or ctx ends with an error: then
	// an object that was there before still is. body ends with io.EOF only if it is
	// complete; it has to be read to its end, and not be used after the return.
	PutObject(ctx context.Context, bucket, key string, body io.Reader) error
	// ObjectExists says whether there is an object.
	ObjectExists(ctx context.Context, bucket, key string) (bool, error)
	// GetObject returns an object, which the caller closes.
	GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// ListCommonPrefixes returns the keys with a prefix up to and with the first
	// delimiter behind it, each once.
	ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error)
	// ListObjects returns all keys with a prefix.
	ListObjects(ctx context.Context, bucket, prefix string) ([]string, error)
	// DeleteObject removes an object. One that does not exist is no error.
	DeleteObject(ctx context.Context, bucket, key string) error
	// CreateSignedURL returns a URL from which the object can be read for a time.
	CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error)
}
