// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

const (
	bucket = "bucket"
	secret = "top-secret-123"
)

// fakeObjectStore is an ObjectStore in memory with the weaknesses of real plugins: its errors
// are texts, and its lists are unsorted. A hook, if set, replaces a method.
type fakeObjectStore struct {
	objects objectstore.Store

	put     func(ctx context.Context, key string, body io.Reader) error
	get     func(ctx context.Context, key string, out io.Writer) error
	list    func(prefix, delimiter string) ([]string, error)
	remove  func(key string) error
	exists  func(ctx context.Context, key string) (bool, error)
	resolve error

	mu    sync.Mutex
	calls []string
	// lose is the number of calls that still lose their process, by method.
	lose map[string]int
}

func newFake() *fakeObjectStore {
	return &fakeObjectStore{objects: memory.New(), lose: map[string]int{}}
}

// store returns a Store over the fake.
func (f *fakeObjectStore) store(edits ...func(*pluginclient.StoreOptions)) *pluginclient.Store {
	opts := pluginclient.StoreOptions{Action: "example.io/fake", Bucket: bucket}
	for _, edit := range edits {
		edit(&opts)
	}
	return pluginclient.NewStore(pluginclient.NewCaller(func() (pluginclient.Connection, pluginclient.ObjectStore, error) {
		return f, f, f.resolve
	}, redact.New(secret)), opts)
}

// Begin implements Connection as host.Process does, without a process.
func (f *fakeObjectStore) Begin(ctx context.Context, _ host.Call) (host.OpenCall, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("the call has no deadline")
	}
	return plugintesting.Call{CallID: "1"}, nil
}

// begin records a call of a method.
func (f *fakeObjectStore) begin(method, bucketOfCall, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.TrimSpace(method+" "+key))
	if bucketOfCall != bucket {
		return status.Errorf(codes.Unknown, "no bucket %q", bucketOfCall)
	}
	if f.lose[method] > 0 {
		f.lose[method]--
		return &host.LostError{Message: "the plugin process fake ended by signal 9 (killed) during the call"}
	}
	return nil
}

func (f *fakeObjectStore) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fakeObjectStore) Init(context.Context, pluginclient.ItemCall, map[string]string) error {
	return errors.New("the store does not configure itself")
}

func (f *fakeObjectStore) Put(ctx context.Context, _ pluginclient.ItemCall, o pluginclient.StoredObject, body io.Reader) error {
	if err := f.begin("Put", o.Bucket, o.Key); err != nil {
		return err
	}
	if f.put != nil {
		return f.put(ctx, o.Key, body)
	}
	return f.keep(ctx, o.Key, body)
}

func (f *fakeObjectStore) keep(ctx context.Context, key string, body io.Reader) error {
	_, err := f.objects.Put(ctx, key, body, objectstore.PutOptions{})
	return err
}

func (f *fakeObjectStore) Exists(ctx context.Context, _ pluginclient.ItemCall, o pluginclient.StoredObject) (bool, error) {
	if err := f.begin("Exists", o.Bucket, o.Key); err != nil {
		return false, err
	}
	if f.exists != nil {
		return f.exists(ctx, o.Key)
	}
	_, err := f.objects.Stat(ctx, o.Key)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (f *fakeObjectStore) Get(ctx context.Context, _ pluginclient.ItemCall, o pluginclient.StoredObject, out io.Writer) error {
	if err := f.begin("Get", o.Bucket, o.Key); err != nil {
		return err
	}
	if f.get != nil {
		return f.get(ctx, o.Key, out)
	}
	r, err := f.objects.Get(ctx, o.Key)
	if err != nil {
		return status.Error(codes.Unknown, "404 of some kind")
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{r}, make([]byte, 16<<10))
	return err
}

func (f *fakeObjectStore) List(
	ctx context.Context, _ pluginclient.ItemCall, bucketOfCall, prefix, delimiter string,
) ([]string, error) {
	if err := f.begin("List", bucketOfCall, prefix); err != nil {
		return nil, err
	}
	if f.list != nil {
		return f.list(prefix, delimiter)
	}
	var keys []string
	for entry, err := range f.objects.List(ctx, objectstore.ListOptions{Prefix: prefix, Delimiter: delimiter}) {
		if err != nil {
			return nil, err
		}
		if delimiter == "" || entry.IsPrefix {
			keys = append(keys, entry.Key)
		}
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys, nil
}

func (f *fakeObjectStore) Delete(ctx context.Context, _ pluginclient.ItemCall, o pluginclient.StoredObject) error {
	if err := f.begin("Delete", o.Bucket, o.Key); err != nil {
		return err
	}
	if f.remove != nil {
		return f.remove(o.Key)
	}
	if _, err := f.objects.Stat(ctx, o.Key); errors.Is(err, objectstore.ErrNotExist) {
		return status.Error(codes.Unknown, "there is no such blob")
	}
	return f.objects.Delete(ctx, o.Key)
}

func (f *fakeObjectStore) SignedURL(
	context.Context, pluginclient.ItemCall, pluginclient.StoredObject, time.Duration,
) (string, error) {
	return "", errors.New("not implemented")
}

func put(t *testing.T, s objectstore.Store, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s objectstore.Store, key string) (string, error) {
	t.Helper()
	r, err := s.Get(t.Context(), key)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	return string(content), errors.Join(err, r.Close())
}
