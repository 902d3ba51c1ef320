// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// memoryStore is a store without faults, except for the method that a test replaces.
type memoryStore struct {
	mu      sync.Mutex
	objects map[string]string
}

func newMemoryStore() *memoryStore { return &memoryStore{objects: map[string]string{}} }

func (m *memoryStore) Init(_ context.Context, config map[string]string) error {
	if config["bucket"] == "" {
		return errors.New("no bucket")
	}
	return nil
}

func (m *memoryStore) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.set(key, string(content))
	return nil
}

func (m *memoryStore) set(key, content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = content
}

func (m *memoryStore) ObjectExists(_ context.Context, _, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[key]
	return ok, nil
}

func (m *memoryStore) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[key]
	if !ok {
		return nil, objectstorev1.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

func (m *memoryStore) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	keys, err := m.ListObjects(ctx, bucket, prefix)
	found := map[string]bool{}
	for _, key := range keys {
		if head, _, ok := strings.Cut(key[len(prefix):], delimiter); ok {
			found[prefix+head+delimiter] = true
		}
	}
	return slices.Collect(maps.Keys(found)), err
}

func (m *memoryStore) ListObjects(_ context.Context, _, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (m *memoryStore) DeleteObject(_ context.Context, _, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

func (m *memoryStore) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return "https://store.example.com/signed", nil
}

func TestCheckContract_ObjectStore(t *testing.T) {
	t.Parallel()
	store := newMemoryStore()
	CheckContract(t, Start(t, serve.New().RegisterObjectStoreV1("example.io/memory", func() (objectstorev1.ObjectStore, error) {
		return store, nil
	})), Contract{})
	if len(store.objects) > 0 {
		t.Errorf("the check left %d objects", len(store.objects))
	}
}

// The stores below have one fault each.
type keepsHalf struct{ *memoryStore }

func (k keepsHalf) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	k.set(key, string(content))
	return err
}

type reportsHalf struct{ *memoryStore }

func (r reportsHalf) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, _ := io.ReadAll(body)
	r.set(key, string(content))
	return nil
}

type losesOld struct{ *memoryStore }

func (l losesOld) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	_ = l.DeleteObject(ctx, bucket, key)
	return l.memoryStore.PutObject(ctx, bucket, key, body)
}

type refusesEmpty struct{ *memoryStore }

func (r refusesEmpty) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err == nil && len(content) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		r.set(key, string(content))
	}
	return err
}

type appends struct{ *memoryStore }

func (a appends) PutObject(_ context.Context, _, key string, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err == nil {
		a.set(key, a.objects[key]+string(content))
	}
	return err
}

type mixes struct{ *memoryStore }

func (m mixes) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if strings.HasSuffix(key, "shared") {
		body = strings.NewReader("a mixture")
	}
	return m.memoryStore.PutObject(ctx, bucket, key, body)
}

type emptyForMissing struct{ *memoryStore }

func (e emptyForMissing) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(e.objects[key])), nil
}

type errorForMissing struct{ *memoryStore }

func (e errorForMissing) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	object, err := e.memoryStore.GetObject(ctx, bucket, key)
	if err != nil {
		err = errors.New("404")
	}
	return object, err
}

type listsDirectories struct{ *memoryStore }

func (l listsDirectories) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return l.memoryStore.ListObjects(ctx, bucket, prefix)
}

type listsLoose struct{ *memoryStore }

func (l listsLoose) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	prefixes, err := l.memoryStore.ListCommonPrefixes(ctx, bucket, prefix, delimiter)
	return append(prefixes, prefix+"loose"), err
}

type deletesOnce struct{ *memoryStore }

func (d deletesOnce) DeleteObject(_ context.Context, _, key string) error {
	if _, ok := d.objects[key]; !ok {
		return objectstorev1.ErrNotExist
	}
	delete(d.objects, key)
	return nil
}

type deletesNothing struct{ *memoryStore }

func (deletesNothing) DeleteObject(context.Context, string, string) error { return nil }

type signsNothing struct{ *memoryStore }

func (signsNothing) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return "", nil
}

func TestStoreCheck_FaultyStores(t *testing.T) {
	t.Parallel()
	const comesBack, interrupted = "objects are read back unchanged", "an interrupted upload leaves nothing behind"
	for name, tc := range map[string]struct {
		store func(m *memoryStore) objectstorev1.ObjectStore
		check string
		want  string
	}{
		"keeps a partial upload":             {store: func(m *memoryStore) objectstorev1.ObjectStore { return keepsHalf{m} }, check: interrupted, want: "ObjectExists says true of new"},
		"reports a partial upload as stored": {store: func(m *memoryStore) objectstorev1.ObjectStore { return reportsHalf{m} }, check: interrupted, want: "was reported as stored"},
		"loses the old object":               {store: func(m *memoryStore) objectstorev1.ObjectStore { return losesOld{m} }, check: interrupted, want: "ObjectExists says false of the stored object old"},
		"refuses an empty object":            {store: func(m *memoryStore) objectstorev1.ObjectStore { return refusesEmpty{m} }, check: comesBack, want: "storing backups/nightly/empty"},
		"appends":                            {store: func(m *memoryStore) objectstorev1.ObjectStore { return appends{m} }, check: "replaces an object", want: "has 19 bytes where 5 were stored"},
		"mixes uploads":                      {store: func(m *memoryStore) objectstorev1.ObjectStore { return mixes{m} }, check: "serves concurrent calls", want: "none of the stored contents"},
		"empty object for a missing one":     {store: func(m *memoryStore) objectstorev1.ObjectStore { return emptyForMissing{m} }, check: "reports a missing object", want: "does not match ErrNotExist"},
		"another error for a missing object": {store: func(m *memoryStore) objectstorev1.ObjectStore { return errorForMissing{m} }, check: "reports a missing object", want: "the error is: 404"},
		"lists more than the prefix":         {store: func(m *memoryStore) objectstorev1.ObjectStore { return listsDirectories{m} }, check: "lists keys", want: `ListObjects with the prefix "a`},
		"lists keys as prefixes":             {store: func(m *memoryStore) objectstorev1.ObjectStore { return listsLoose{m} }, check: "lists common prefixes", want: "ListCommonPrefixes with the prefix"},
		"deletes only once":                  {store: func(m *memoryStore) objectstorev1.ObjectStore { return deletesOnce{m} }, check: "deletes", want: "a second time"},
		"deletes nothing":                    {store: func(m *memoryStore) objectstorev1.ObjectStore { return deletesNothing{m} }, check: "deletes", want: "ObjectExists says true of a/1"},
		"signs nothing":                      {store: func(m *memoryStore) objectstorev1.ObjectStore { return signsNothing{m} }, check: "signs URLs or returns an error", want: "no error and no URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeCheck{store: tc.store(newMemoryStore()), bucket: "b", prefix: "p/"}
			err := storeCheckFuncs()[tc.check](s, t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the check returned %v, want %q", err, tc.want)
			}
			if err := storeCheckFuncs()[tc.check](storeCheck{store: newMemoryStore(), bucket: "b", prefix: "p/"}, t.Context()); err != nil {
				t.Errorf("the check of a good store returned %v", err)
			}
		})
	}
}

// slowToGiveUp is a store that continues for a while after its upload was interrupted.
type slowToGiveUp struct {
	*memoryStore
	ended atomic.Bool
}

func (s *slowToGiveUp) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	err := s.memoryStore.PutObject(ctx, bucket, key, body)
	for range 100_000 {
		runtime.Gosched()
	}
	s.ended.Store(true)
	return err
}

func TestObjectStoreV1_InterruptedUpload(t *testing.T) {
	t.Parallel()
	slow := &slowToGiveUp{memoryStore: newMemoryStore()}
	p := Start(t, serve.New().RegisterObjectStoreV1("example.io/slow", func() (objectstorev1.ObjectStore, error) { return slow, nil }))
	store := p.ObjectStoreV1("example.io/slow")
	if err := store.Init(t.Context(), map[string]string{"bucket": "b"}); err != nil {
		t.Fatal(err)
	}
	if err := store.PutObject(t.Context(), "b", "k", failingReader{}); !errors.Is(err, errInterrupted) {
		t.Errorf("error is %v", err)
	}
	if !slow.ended.Load() {
		t.Error("the check inspects the store while its upload still runs")
	}
}

// TestObjectStoreV1_LongList checks that a list may exceed the default limit of gRPC, as the operator
// accepts more.
func TestObjectStoreV1_LongList(t *testing.T) {
	t.Parallel()
	memory := newMemoryStore()
	for range 5 {
		memory.set(rand.Text()+strings.Repeat("x", 1<<20), "")
	}
	store := Start(t, serve.New().RegisterObjectStoreV1("example.io/memory", func() (objectstorev1.ObjectStore, error) {
		return memory, nil
	})).ObjectStoreV1("example.io/memory")
	if err := store.Init(t.Context(), map[string]string{"bucket": "b"}); err != nil {
		t.Fatal(err)
	}
	if keys, err := store.ListObjects(t.Context(), "b", ""); err != nil || len(keys) != 5 {
		t.Errorf("the list has %d keys, error %v", len(keys), err)
	}
}

// TestObjectStoreV1 covers what the client does in place of the operator.
func TestObjectStoreV1(t *testing.T) {
	t.Parallel()
	p := Start(t, serve.New().RegisterObjectStoreV1("example.io/memory", func() (objectstorev1.ObjectStore, error) {
		return newMemoryStore(), nil
	}))
	store := p.ObjectStoreV1("example.io/memory")
	if err := store.Init(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no bucket") {
		t.Errorf("error of Init is %v", err)
	}
	if err := store.Init(t.Context(), map[string]string{"bucket": "b"}); err != nil {
		t.Fatal(err)
	}
	if err := store.PutObject(t.Context(), "b", "k", io.MultiReader(strings.NewReader("half"), failingReader{})); !errors.Is(err, errInterrupted) {
		t.Errorf("error of a broken body is %v, want its own", err)
	}
	if _, err := store.GetObject(t.Context(), "b", "k"); !errors.Is(err, objectstorev1.ErrNotExist) {
		t.Errorf("error of a missing object is %v, want ErrNotExist", err)
	}
}
