// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
)

// uploadsDir is the directory for incomplete objects. No bucket has such a name.
const uploadsDir = ".uploads"

// directoryStore is an ObjectStore that stores objects as files: "bucket/key" below the
// directory that the location names. No key can reach a file outside it.
type directoryStore struct{ root *os.Root }

// Init opens the directory.
func (f *directoryStore) Init(_ context.Context, config map[string]string) error {
	name := config["directory"]
	if name == "" {
		return errors.New("set directory in spec.plugin.config of the BackupStorageLocation")
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return fmt.Errorf("creating the directory: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	f.root = root
	return nil
}

// objectPath returns the path of an object.
func objectPath(bucket, key string) (string, error) {
	name := bucket + "/" + key
	if !fs.ValidPath(name) || bucket == uploadsDir {
		return "", fmt.Errorf("%q is not a valid name of an object in a directory", name)
	}
	return name, nil
}

// PutObject writes the object to a separate file and renames it into place when it is
// complete and synced. Readers never see a part of it.
func (f *directoryStore) PutObject(_ context.Context, bucket, key string, body io.Reader) (err error) {
	name, err := objectPath(bucket, key)
	if err != nil {
		return err
	}
	part := path.Join(uploadsDir, rand.Text())
	if err := f.root.MkdirAll(uploadsDir, 0o700); err != nil {
		return fmt.Errorf("creating the directory of uploads: %w", err)
	}
	if err := f.writeObjectFile(part, body); err != nil {
		return errors.Join(fmt.Errorf("writing the object: %w", err), ignoreMissing(f.root.Remove(part)))
	}
	if err := f.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return errors.Join(fmt.Errorf("creating the directory of the object: %w", err), f.root.Remove(part))
	}
	if err := f.root.Rename(part, name); err != nil {
		return errors.Join(fmt.Errorf("moving the object into place: %w", err), f.root.Remove(part))
	}
	return nil
}

// writeObjectFile returns an error if body fails: then the object is not complete.
func (f *directoryStore) writeObjectFile(name string, body io.Reader) error {
	out, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, body)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// ObjectExists checks whether the file exists.
func (f *directoryStore) ObjectExists(_ context.Context, bucket, key string) (bool, error) {
	name, err := objectPath(bucket, key)
	if err != nil {
		return false, err
	}
	info, err := f.root.Stat(name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return info.Mode().IsRegular(), nil
}

// GetObject opens the file.
func (f *directoryStore) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	exists, err := f.ObjectExists(ctx, bucket, key)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%s/%s: %w", bucket, key, objectstorev1.ErrNotExist)
	}
	return f.root.Open(bucket + "/" + key)
}

// ListObjects walks through all files of the bucket.
func (f *directoryStore) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	if _, err := objectPath(bucket, "any"); err != nil {
		return nil, err
	}
	var keys []string
	err := fs.WalkDir(f.root.FS(), bucket, func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			// The directory may be large.
			err = ctx.Err()
		}
		key := strings.TrimPrefix(name, bucket+"/")
		if err == nil && entry.Type().IsRegular() && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return nil, fmt.Errorf("listing the directory: %w", err)
	}
	return keys, nil
}

// ListCommonPrefixes shortens the keys.
func (f *directoryStore) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	keys, err := f.ListObjects(ctx, bucket, prefix)
	if err != nil {
		return nil, err
	}
	var prefixes []string
	for _, key := range keys {
		if head, _, found := strings.Cut(key[len(prefix):], delimiter); found {
			prefixes = append(prefixes, prefix+head+delimiter)
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes), nil
}

// DeleteObject removes the file. Its parent directories stay: another object may be about
// to be stored there.
func (f *directoryStore) DeleteObject(_ context.Context, bucket, key string) error {
	name, err := objectPath(bucket, key)
	if err != nil {
		return err
	}
	return ignoreMissing(f.root.Remove(name))
}

// CreateSignedURL returns an error: there are no URLs.
func (*directoryStore) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return "", errors.New("objects in a directory have no URL")
}

// ignoreMissing returns err unless it means that a file does not exist, or cannot exist
// because an object has the name of its directory.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
