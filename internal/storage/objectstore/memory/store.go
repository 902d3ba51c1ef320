// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Option configures a store created by New.
type Option func(*Store)

// WithoutPutIfAbsent makes Put with IfAbsent non-atomic, as on S3 servers that do not
// support conditional writes.
func WithoutPutIfAbsent() Option {
	return func(s *Store) { s.putIfAbsent = false }
}

// WithoutMetadata makes List return only keys, as the plugins of Velero do.
func WithoutMetadata() Option {
	return func(s *Store) { s.keysOnly = true }
}

// WithClock sets the source of modification times. The default is the system clock.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// Store implements objectstore.Store. It is safe for concurrent use.
type Store struct {
	putIfAbsent bool
	keysOnly    bool
	now         func() time.Time

	mu      sync.RWMutex
	objects map[string]storedObject
	version int64
}

type storedObject struct {
	data []byte
	info objectstore.Info
}

var _ objectstore.Store = (*Store)(nil)

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{
		putIfAbsent: true,
		now:         time.Now,
		objects:     map[string]storedObject{},
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Put implements objectstore.Store. The whole object is held in memory.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	fail := func(kind, err error) (objectstore.Info, error) {
		return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Kind: kind, Err: err}
	}
	if err := objectstore.ValidateKey(key); err != nil {
		return fail(nil, err)
	}
	if opts.IfAbsent && !s.putIfAbsent && s.hasObject(key) {
		return fail(objectstore.ErrExists, nil)
	}
	data, err := readContent(ctx, r)
	if err != nil {
		return fail(nil, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.objects[key]; found && opts.IfAbsent && s.putIfAbsent {
		return fail(objectstore.ErrExists, nil)
	}
	s.version++
	info := objectstore.Info{Key: key, Size: int64(len(data)), ModTime: s.now(), ETag: strconv.FormatInt(s.version, 10)}
	s.objects[key] = storedObject{data: data, info: info}
	return info, nil
}

func (s *Store) hasObject(key string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, found := s.objects[key]
	return found
}

func readContent(ctx context.Context, r io.Reader) ([]byte, error) {
	var data bytes.Buffer
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, err := io.CopyN(&data, r, 256<<10)
		switch {
		case errors.Is(err, io.EOF):
			return data.Bytes(), ctx.Err()
		case err != nil:
			return nil, err
		}
	}
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	o, err := s.findObject(ctx, "getting", key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(&objectReader{ctx: ctx, data: bytes.NewReader(o.data)}), nil
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	o, err := s.findObject(ctx, "describing", key)
	if s.keysOnly {
		o.info.ModTime = time.Time{}
	}
	return o.info, err
}

func (s *Store) findObject(ctx context.Context, op, key string) (storedObject, error) {
	if err := ctx.Err(); err != nil {
		return storedObject{}, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if err := objectstore.ValidateKey(key); err != nil {
		return storedObject{}, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, found := s.objects[key]
	if !found {
		return storedObject{}, &objectstore.Error{Op: op, Key: key, Kind: objectstore.ErrNotExist}
	}
	return o, nil
}

// List implements objectstore.Store. It lists the objects that existed when the iteration
// began.
func (s *Store) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		fail := func(err error) {
			yield(objectstore.Entry{}, &objectstore.Error{Op: "listing", Key: opts.Prefix, Err: err})
		}
		if err := opts.Validate(); err != nil {
			fail(err)
			return
		}
		last := ""
		for _, info := range s.sortedObjectInfos(opts.Prefix) {
			if err := ctx.Err(); err != nil {
				fail(err)
				return
			}
			entry := opts.RollUp(info)
			if entry.Key <= opts.StartAfter || (entry.IsPrefix && entry.Key == last) {
				continue
			}
			last = entry.Key
			if !yield(entry, nil) {
				return
			}
		}
	}
}

func (s *Store) sortedObjectInfos(prefix string) []objectstore.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []objectstore.Info
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		switch {
		case !strings.HasPrefix(key, prefix):
		case s.keysOnly:
			all = append(all, objectstore.Info{Key: key, Size: objectstore.UnknownSize})
		default:
			all = append(all, s.objects[key].info)
		}
	}
	return all
}

// Delete implements objectstore.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		err := ctx.Err()
		if err == nil {
			err = objectstore.ValidateKey(key)
		}
		if err != nil {
			return &objectstore.Error{Op: "deleting", Key: key, Err: err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.objects, key)
	}
	return nil
}

// Capabilities implements objectstore.Store.
func (s *Store) Capabilities() objectstore.Capabilities {
	return objectstore.Capabilities{PutIfAbsent: s.putIfAbsent, Metadata: !s.keysOnly}
}

// objectReader fails when the context ends, as the stream of a remote store does.
type objectReader struct {
	ctx  context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	data io.Reader
}

func (r *objectReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.data.Read(p)
}
