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

// ErrNotExist is the error that GetObject returns, possibly wrapped, if the object does not
// exist.
var ErrNotExist = errors.New("the object does not exist")

// ObjectStore stores objects in buckets. There is one process with one instance per
// location; its methods are called concurrently after Init.
type ObjectStore interface {
	// Init is called before all other methods, and again if it failed. config is the
	// configuration of the location with the keys "bucket", "prefix", "caCert" and
	// "credentialsFile" if they are set. An error says what is wrong with the
	// configuration. The keys passed to other methods already begin with the prefix.
	Init(ctx context.Context, config map[string]string) error
	// PutObject creates or replaces an object. The complete object is visible when
	// PutObject returns nil. If body or ctx ends with an error, nothing of it is visible
	// and an existing object is unchanged. body ends with io.EOF only if it is complete.
	// PutObject must read body to its end and must not use it after returning.
	PutObject(ctx context.Context, bucket, key string, body io.Reader) error
	// ObjectExists reports whether an object exists.
	ObjectExists(ctx context.Context, bucket, key string) (bool, error)
	// GetObject returns an object, which the caller closes.
	GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// ListCommonPrefixes returns the keys with a prefix, up to and including the first
	// delimiter after the prefix, each once.
	ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error)
	// ListObjects returns all keys with a prefix.
	ListObjects(ctx context.Context, bucket, prefix string) ([]string, error)
	// DeleteObject removes an object. Deleting a missing object is not an error.
	DeleteObject(ctx context.Context, bucket, key string) error
	// CreateSignedURL returns a URL from which the object can be read for a limited time.
	CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error)
}
