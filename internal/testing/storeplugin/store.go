// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storeplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// ServeIfAsked serves the plugin and does not return if the program was started as a
// plugin.
func ServeIfAsked() {
	if os.Getenv(envServe) == "" {
		return
	}
	serve.New().RegisterObjectStoreV1(Provider, func() (objectstorev1.ObjectStore, error) {
		return &bucketStore{root: os.Getenv(envRoot)}, nil
	}).Serve()
	os.Exit(0)
}

// bucketStore is the ObjectStore. Its contract is that of package filesystem, whose errors
// are more specific than a plugin's.
type bucketStore struct {
	root    string
	objects *filesystem.Store
}

// Init accepts the keys that Velero passes and one of its own, and rejects others.
func (s *bucketStore) Init(_ context.Context, config map[string]string) error {
	for key := range config {
		if !slices.Contains([]string{"bucket", "prefix", "caCert", "credentialsFile", "mode"}, key) {
			return fmt.Errorf("config has invalid key %s", key)
		}
	}
	bucket := config["bucket"]
	if info, err := os.Stat(filepath.Join(s.root, bucket)); err != nil || !info.IsDir() {
		return fmt.Errorf("the bucket %q does not exist", bucket)
	}
	start := AcceptedInit{PID: os.Getpid(), Config: config}
	if path := config["credentialsFile"]; path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the credentials: %w", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading the mode of the credentials: %w", err)
		}
		start.Credentials, start.Mode = string(content), info.Mode()
		if strings.Contains(start.Credentials, "wrong") {
			return fmt.Errorf("unknown credentials %s", content)
		}
	}
	objects, err := filesystem.Open(s.root, bucket)
	if err != nil {
		return err
	}
	s.objects = objects
	return s.recordAcceptedInit(start)
}

func (s *bucketStore) recordAcceptedInit(start AcceptedInit) error {
	line, err := json.Marshal(start)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.root, initsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func killOwnProcess() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// PutObject dies in the middle of some objects.
func (s *bucketStore) PutObject(ctx context.Context, _, key string, body io.Reader) error {
	if strings.HasPrefix(filepath.Base(key), KillOnPutPrefix) {
		_, _ = io.CopyN(io.Discard, body, 1<<20)
		killOwnProcess()
	}
	_, err := s.objects.Put(ctx, key, body, objectstore.PutOptions{})
	return err
}

func (s *bucketStore) ObjectExists(ctx context.Context, _, key string) (bool, error) {
	_, err := s.objects.Stat(ctx, key)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// GetObject dies in the middle of some objects.
func (s *bucketStore) GetObject(ctx context.Context, _, key string) (io.ReadCloser, error) {
	r, err := s.objects.Get(ctx, key)
	if err == nil && strings.HasPrefix(filepath.Base(key), KillOnGetPrefix) {
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, 8<<20), killingReader{}), r}, nil
	}
	return r, err
}

// killingReader kills the process at the end of a stream.
type killingReader struct{}

func (killingReader) Read([]byte) (int, error) {
	killOwnProcess()
	return 0, io.ErrUnexpectedEOF
}

func (s *bucketStore) ListCommonPrefixes(ctx context.Context, _, prefix, delimiter string) ([]string, error) {
	return s.listKeysBackwards(ctx, objectstore.ListOptions{Prefix: prefix, Delimiter: delimiter}, true)
}

func (s *bucketStore) ListObjects(ctx context.Context, _, prefix string) ([]string, error) {
	return s.listKeysBackwards(ctx, objectstore.ListOptions{Prefix: prefix}, false)
}

// listKeysBackwards lists keys in reverse order.
func (s *bucketStore) listKeysBackwards(ctx context.Context, opts objectstore.ListOptions, prefixes bool) ([]string, error) {
	var keys []string
	for entry, err := range s.objects.List(ctx, opts) {
		if err != nil {
			return nil, err
		}
		if entry.IsPrefix == prefixes {
			keys = append(keys, entry.Key)
		}
	}
	slices.Reverse(keys)
	return keys, nil
}

func (s *bucketStore) DeleteObject(ctx context.Context, _, key string) error {
	return s.objects.Delete(ctx, key)
}

func (s *bucketStore) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return "", errors.New("a directory has no URLs")
}
