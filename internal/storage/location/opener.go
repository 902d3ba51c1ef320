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
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
)

// The keys of a credentials Secret.
const (
	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keySessionToken    = "sessionToken"
	// keyCredentialsFile is the key in Secrets of Velero.
	keyCredentialsFile = "cloud"
)

// ErrInvalidSpec means that a location cannot work with its current spec; retrying
// without a change is useless.
var ErrInvalidSpec = errors.New("invalid location")

// Opener opens locations. It is safe for concurrent use.
type Opener struct {
	// Reader reads Secrets. It should not be a cache, so that the operator does
	// not hold every Secret of its namespace in memory.
	Reader client.Reader
	// Root is the directory that filesystem locations are relative to; if empty,
	// they are refused.
	Root string
	// Fence delays writes to locations while the operator may not be the leader; nil
	// delays nothing.
	Fence *lease.Fence
	// Redactor receives the credentials that it must remove from every text.
	Redactor *redact.Redactor

	// Stores provides the ObjectStores of plugins, and Plugins reads the Plugins; Plugins
	// may be a cache. Without Stores, locations of plugins are refused.
	Stores  ObjectStores
	Plugins client.Reader
	// Scratch is where the credentials of such locations are written to files, in a directory that
	// only this Opener uses.
	Scratch string

	// Metrics measures the requests to the stores; nil measures nothing.
	Metrics *Metrics

	credentials credentialFiles
	stuckCalls  locationStuckCalls
}

// Store is an open location. Close it when it is no longer used.
type Store struct {
	*storage.Store
	closeFunc func() error
}

// Close releases the resources of the location.
func (s *Store) Close() error { return s.closeFunc() }

// Open opens a location. It does not contact an S3 service yet, and starts no process of a
// plugin; see storage.Store.Probe. The state that an Opener keeps for the location of a plugin
// outlives the Store. It is released by ReleaseDeletedLocation, or by an Open with another
// provider.
func (o *Opener) Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*Store, error) {
	if bsl.Spec.Plugin == nil && o.credentials.dropCredentials(bsl.UID) {
		o.releaseProcesses(ctx, bsl.UID)
	}
	switch {
	case bsl.Spec.Plugin != nil:
		return o.openPluginStore(ctx, bsl)
	case bsl.Spec.Filesystem != nil:
		return o.openVolumeStore(ctx, bsl)
	case bsl.Spec.S3 != nil:
		options, err := o.readS3Options(ctx, bsl)
		if err != nil {
			return nil, err
		}
		store, err := s3.New(options)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidSpec, err)
		}
		return o.newStore(store, bsl, store.Close), nil
	}
	return nil, fmt.Errorf("%w: the location has no provider; set spec.filesystem, spec.s3 or spec.plugin", ErrInvalidSpec)
}

func (o *Opener) readS3Options(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (s3.Options, error) {
	spec := bsl.Spec.S3
	options := s3.Options{
		Bucket: spec.Bucket, Region: spec.Region, Endpoint: spec.Endpoint,
		ForcePathStyle: spec.ForcePathStyle, CACert: spec.CACert, InsecureSkipVerify: spec.InsecureSkipTLSVerify,
		Checksum: s3.ChecksumAlgorithm(spec.ChecksumAlgorithm),
	}
	if e := spec.ServerSideEncryption; e != nil {
		options.Encryption = s3.Encryption{Algorithm: s3.EncryptionAlgorithm(e.Algorithm), KMSKeyID: e.KMSKeyID}
	}
	if spec.CredentialsSecret == nil {
		return options, nil
	}
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: bsl.Namespace, Name: spec.CredentialsSecret.Name}
	if err := o.Reader.Get(ctx, key, &secret); err != nil {
		return options, fmt.Errorf("reading the Secret %s of the location: %w", key.Name, err)
	}
	var err error
	if options.Credentials, err = parseS3Secret(secret.Data, spec.Profile); err != nil {
		return options, fmt.Errorf("%w: Secret %s %w", ErrInvalidSpec, key.Name, err)
	}
	o.Redactor.AddRecentValues(options.Credentials.SecretAccessKey, options.Credentials.SessionToken)
	return options, nil
}

// parseS3Secret returns the credentials in a Secret of either form. The beginning of an error is the name of the Secret.
func parseS3Secret(data map[string][]byte, profile string) (awscredentials.Credentials, error) {
	_, hasID := data[keyAccessKeyID]
	_, hasSecret := data[keySecretAccessKey]
	file, hasFile := data[keyCredentialsFile]
	hasKeys := hasID || hasSecret
	switch {
	case hasKeys && hasFile:
		return awscredentials.Credentials{}, fmt.Errorf("has the credentials in two forms: remove either the key %s, or %s and %s",
			keyCredentialsFile, keyAccessKeyID, keySecretAccessKey)
	case hasFile:
		c, err := awscredentials.ParseFile(file, profile)
		if err != nil {
			err = fmt.Errorf("has a wrong value in the key %s: %w", keyCredentialsFile, err)
		}
		return c, err
	case profile != "":
		return awscredentials.Credentials{}, fmt.Errorf("needs the key %s, with the credentials file whose profile spec.s3.profile names", keyCredentialsFile)
	case len(data[keyAccessKeyID]) == 0, len(data[keySecretAccessKey]) == 0:
		return awscredentials.Credentials{}, fmt.Errorf("needs the keys %s and %s, or the key %s with a credentials file of the AWS tools",
			keyAccessKeyID, keySecretAccessKey, keyCredentialsFile)
	}
	return awscredentials.Credentials{
		AccessKeyID: string(data[keyAccessKeyID]), SecretAccessKey: string(data[keySecretAccessKey]), SessionToken: string(data[keySessionToken]),
	}, nil
}
