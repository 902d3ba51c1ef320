// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// ConfigRoot is the key in the configuration of a location whose value is the directory
// with the buckets.
const ConfigRoot = "root"

// DirectoryStore is an ObjectStore. A bucket is a directory, and an object a file in it.
type DirectoryStore struct {
	mu   sync.Mutex
	root string
}

// NewDirectory returns a store; call Init before use.
func NewDirectory() *DirectoryStore { return &DirectoryStore{} }

// Init takes the directory with the buckets from the configuration.
func (f *DirectoryStore) Init(config map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if config[ConfigRoot] == "" {
		return errors.Errorf("the configuration has no %q", ConfigRoot)
	}
	f.root = config[ConfigRoot]
	return nil
}

// objectPath returns the name of the file of an object, or of the bucket for an empty key.
func (f *DirectoryStore) objectPath(bucket, key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return filepath.Join(f.root, bucket, filepath.FromSlash(key))
}

// PutObject stores an object, all of it or nothing.
func (f *DirectoryStore) PutObject(bucket, key string, body io.Reader) (err error) {
	if _, err := os.Stat(f.objectPath(bucket, "")); err != nil {
		return errors.Wrap(err, "looking for the bucket")
	}
	temporary, err := os.CreateTemp(f.objectPath("", ""), ".put-*")
	if err != nil {
		return errors.WithStack(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = io.Copy(temporary, body)
	if closing := temporary.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return errors.Wrap(err, "writing the object")
	}
	target := f.objectPath(bucket, key)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(os.Rename(temporary.Name(), target))
}

// ObjectExists reports whether there is an object.
func (f *DirectoryStore) ObjectExists(bucket, key string) (bool, error) {
	info, err := os.Stat(f.objectPath(bucket, key))
	if isNotExistError(err) {
		return false, nil
	}
	return err == nil && !info.IsDir(), errors.WithStack(err)
}

// GetObject opens an object.
func (f *DirectoryStore) GetObject(bucket, key string) (io.ReadCloser, error) {
	file, err := os.Open(f.objectPath(bucket, key))
	return file, errors.WithStack(err)
}

// ListObjects returns the keys that begin with a prefix.
func (f *DirectoryStore) ListObjects(bucket, prefix string) ([]string, error) {
	root := f.objectPath(bucket, "")
	keys := []string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if key := filepath.ToSlash(name); err == nil && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return err
	})
	slices.Sort(keys)
	return keys, errors.WithStack(err)
}

// ListCommonPrefixes returns what the keys that begin with a prefix have in common up
// to the next delimiter.
func (f *DirectoryStore) ListCommonPrefixes(bucket, prefix, delimiter string) ([]string, error) {
	keys, err := f.ListObjects(bucket, prefix)
	prefixes := []string{}
	for _, key := range keys {
		name, _, deeper := strings.Cut(strings.TrimPrefix(key, prefix), delimiter)
		if deeper {
			prefixes = append(prefixes, prefix+name+delimiter)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(prefixes))), err
}

// DeleteObject removes an object, and succeeds if there is none.
func (f *DirectoryStore) DeleteObject(bucket, key string) error {
	err := os.Remove(f.objectPath(bucket, key))
	if isNotExistError(err) {
		return nil
	}
	return errors.WithStack(err)
}

// CreateSignedURL returns a URL with the time for which it is good.
func (f *DirectoryStore) CreateSignedURL(bucket, key string, ttl time.Duration) (string, error) {
	signed := url.URL{Scheme: "file", Path: f.objectPath(bucket, key), RawQuery: "ttl=" + ttl.String()}
	return signed.String(), nil
}

// isNotExistError also knows a key below an object.
func isNotExistError(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "not a directory")
}
