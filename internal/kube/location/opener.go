// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// The keys of a credentials Secret.
const (
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keySessionToken    = "sessionToken"
)

// ErrSpec means that a location can not work as it is written; asking again
// without a change is useless.
var ErrSpec = errors.New("invalid location")

// Opener opens locations. It is safe for concurrent use.
type Opener struct {
	// Reader reads Secrets. It should not be a cache, so that the operator does
	// not hold every Secret of its namespace in memory.
	Reader client.Reader
	// Root is the folder that filesystem locations are relative to; empty
	// refuses them.
	Root string
	// Redactor learns the credentials it must keep out of every text.
	Redactor *redact.Redactor

	// Stores reaches the ObjectStores of plugins, and Plugins reads the Plugins; it
	// may be a cache. Without Stores, locations of plugins are refused.
	Stores  ObjectStores
	Plugins client.Reader
	// Scratch is where the credentials of such locations become files, in a folder of
	// this Opener alone.
	Scratch string

	kept keeper
}

// Store is an open location. Close it when it is no longer used.
type Store struct {
	*backupstore.Store
	close func() error
}

// Close frees what the location holds open.
func (s *Store) Close() error { return s.close() }

// Open opens a location. It does not contact an S3 service yet, and starts no plugin's
// process; see backupstore.Store.Probe. Other than a Store, what an Opener keeps for the
// location of a plugin is ended by Forget, or by an Open with another provider.
func (o *Opener) Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*Store, error) {
	if bsl.Spec.Plugin == nil && o.kept.forget(bsl.UID) {
		o.release(ctx, bsl.UID)
	}
	switch {
	case bsl.Spec.Plugin != nil:
		return o.openPlugin(ctx, bsl)
	case bsl.Spec.Filesystem != nil:
		if o.Root == "" {
			return nil, fmt.Errorf("%w: filesystem locations need the flag --store-root on the operator", ErrSpec)
		}
		store, err := filesystem.Open(o.Root, bsl.Spec.Filesystem.Path)
		if err != nil {
			return nil, fmt.Errorf("opening folder: %w", err)
		}
		return wrap(store, bsl, store.Close), nil
	case bsl.Spec.S3 != nil:
		options, err := o.s3Options(ctx, bsl)
		if err != nil {
			return nil, err
		}
		store, err := s3.New(options)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSpec, err)
		}
		return wrap(store, bsl, store.Close), nil
	}
	return nil, fmt.Errorf("%w: it has no provider; set spec.filesystem, spec.s3 or spec.plugin", ErrSpec)
}

func wrap(objects objectstore.Store, bsl *v1alpha1.BackupStorageLocation, closer func() error) *Store {
	return &Store{Store: backupstore.New(objects, bsl.Spec.Prefix), close: closer}
}

func (o *Opener) s3Options(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (s3.Options, error) {
	spec := bsl.Spec.S3
	options := s3.Options{
		Bucket: spec.Bucket, Region: spec.Region, Endpoint: spec.Endpoint,
		ForcePathStyle: spec.ForcePathStyle, CACert: spec.CACert,
	}
	if spec.CredentialsSecret == nil {
		return options, nil
	}
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: bsl.Namespace, Name: spec.CredentialsSecret.Name}
	if err := o.Reader.Get(ctx, key, &secret); err != nil {
		return options, fmt.Errorf("reading the Secret %s that the location names: %w", key.Name, err)
	}
	options.Credentials.AccessKeyID = string(secret.Data[keyAccessKeyID])
	options.Credentials.SecretAccessKey = string(secret.Data[keySecretAccessKey])
	options.Credentials.SessionToken = string(secret.Data[keySessionToken])
	if options.Credentials.AccessKeyID == "" || options.Credentials.SecretAccessKey == "" {
		return options, fmt.Errorf("%w: Secret %s needs the keys %s and %s", ErrSpec, key.Name, keyAccessKeyID, keySecretAccessKey)
	}
	o.Redactor.AddValues(options.Credentials.SecretAccessKey, options.Credentials.SessionToken)
	return options, nil
}
