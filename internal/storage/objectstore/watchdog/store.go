// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Store implements objectstore.Store. It is safe for concurrent use.
type Store struct {
	store objectstore.Store
	opts  Options
}

var _ objectstore.ExtendedStore = (*Store)(nil)

// New wraps a store.
func New(store objectstore.Store, opts Options) *Store {
	if opts.StuckCalls == nil {
		opts.StuckCalls = &StuckCalls{}
	}
	return &Store{store: store, opts: opts}
}

// Capabilities implements objectstore.Store.
func (s *Store) Capabilities() objectstore.Capabilities { return s.store.Capabilities() }

// toStoreError wraps an error of the watchdog like an error of a store.
func toStoreError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*objectstore.Error](err); known {
		return err
	}
	return &objectstore.Error{Op: op, Key: key, Err: err}
}

// Stat implements objectstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	// A store without metadata reads the whole object, and bounds that itself.
	limit := s.opts.Timeouts.Call
	if !s.store.Capabilities().Metadata {
		limit = 0
	}
	info, err := RunWithTimeout(ctx, s.opts, limit, func(ctx context.Context) (objectstore.Info, error) {
		return s.store.Stat(ctx, key)
	}, nil)
	return info, toStoreError("describing", key, err)
}

// Delete implements objectstore.Store. Each key adds a second to the timeout of the call.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	limit := s.opts.Timeouts.Call
	if limit > 0 {
		limit += time.Duration(len(keys)) * time.Second
	}
	_, err := RunWithTimeout(ctx, s.opts, limit, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.Delete(ctx, keys...)
	}, nil)
	return toStoreError("deleting", keys[0], err)
}

// AbortUploads implements objectstore.UploadAborter. It does nothing if the wrapped store
// does not implement that.
func (s *Store) AbortUploads(ctx context.Context, prefix string) (int, error) {
	aborter, ok := s.store.(objectstore.UploadAborter)
	if !ok {
		return 0, nil
	}
	n, err := RunWithTimeout(ctx, s.opts, s.opts.Timeouts.Call, func(ctx context.Context) (int, error) {
		return aborter.AbortUploads(ctx, prefix)
	}, nil)
	return n, toStoreError("aborting uploads of", prefix, err)
}

// Space implements objectstore.SpaceReporter.
func (s *Store) Space(ctx context.Context) (objectstore.Space, error) {
	reporter, ok := s.store.(objectstore.SpaceReporter)
	if !ok {
		return objectstore.Space{}, nil
	}
	return RunWithTimeout(ctx, s.opts, s.opts.Timeouts.Call, reporter.Space, nil)
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return s.listEntries(ctx, opts, s.store.List)
}

// CommonPrefixes implements objectstore.PrefixLister.
func (s *Store) CommonPrefixes(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	if lister, ok := s.store.(objectstore.PrefixLister); ok {
		return s.listEntries(ctx, opts, lister.CommonPrefixes)
	}
	return func(yield func(objectstore.Entry, error) bool) {
		if opts.Delimiter == "" {
			yield(objectstore.Entry{}, toStoreError("listing", opts.Prefix, errors.New("common prefixes need a delimiter")))
			return
		}
		for entry, err := range s.listEntries(ctx, opts, s.store.List) {
			if (err != nil || entry.IsPrefix) && !yield(entry, err) {
				return
			}
		}
	}
}

// maxListReadAhead is how many entries a list may be ahead of its consumer.
const maxListReadAhead = 64

// listEntries yields the entries of source.
func (s *Store) listEntries(
	ctx context.Context, opts objectstore.ListOptions,
	source func(context.Context, objectstore.ListOptions) iter.Seq2[objectstore.Entry, error],
) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		entries, left := make(chan objectstore.Entry, maxListReadAhead), make(chan struct{})
		c, err := startCall(ctx, s.opts, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, sendEntries(func() iter.Seq2[objectstore.Entry, error] { return source(ctx, opts) }, entries, left)
		}, nil)
		if err != nil {
			yield(objectstore.Entry{}, toStoreError("listing", opts.Prefix, err))
			return
		}
		if err := s.receiveEntries(ctx, c, entries, left, yield); err != nil {
			yield(objectstore.Entry{}, toStoreError("listing", opts.Prefix, err))
		}
	}
}

// sendEntries sends a list until it ends or its consumer has left.
func sendEntries(source func() iter.Seq2[objectstore.Entry, error], entries chan<- objectstore.Entry, left <-chan struct{}) (err error) {
	defer close(entries)
	defer panics.Recover(&err)
	for entry, err := range source() {
		if err != nil {
			return err
		}
		select {
		case entries <- entry:
		case <-left:
			return nil
		}
	}
	return nil
}

// receiveEntries yields the entries of a list. It returns the error of the list, or the
// reason why the watchdog gave it up.
func (s *Store) receiveEntries(
	ctx context.Context, c *watchedCall[struct{}], entries <-chan objectstore.Entry, left chan<- struct{}, yield func(objectstore.Entry, error) bool,
) error {
	defer c.cancel(nil)
	for {
		timer, stop := newOptionalTimer(s.opts.Timeouts.Call)
		var cause error
		select {
		case next, more := <-entries:
			stop()
			if !more {
				_, err := c.waitForResult(ctx, 0)
				return err
			}
			if yield(next, nil) {
				continue
			}
			close(left)
			_, _ = c.giveUpCall(nil) // its outcome does not matter
			return nil
		case <-ctx.Done():
			cause = ctx.Err()
		case <-timer:
			cause = s.opts.stalledError(s.opts.Timeouts.Call)
		}
		stop()
		close(left)
		if _, err := c.giveUpCall(cause); err != nil {
			return err
		}
		return cause // also at the end of the list: an entry may be missing
	}
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	// The stream outlives the call that opens it.
	inner, cancel := context.WithCancelCause(ctx)
	stream, err := runWithAbort(ctx, s.opts, s.opts.Timeouts.Call, cancel, func() (io.ReadCloser, error) {
		return s.store.Get(inner, key)
	}, func(late io.ReadCloser) { _ = late.Close() })
	if err != nil {
		cancel(nil)
		return nil, toStoreError("getting", key, err)
	}
	return &objectReader{ctx: ctx, store: s, key: key, stream: stream, cancel: cancel}, nil
}

// runWithAbort is RunWithTimeout for a call with its own ctx, which abort cancels.
func runWithAbort[R any](
	ctx context.Context, o Options, limit time.Duration, abort context.CancelCauseFunc, fn func() (R, error), release func(R),
) (R, error) {
	c, err := startCall(ctx, o, func(context.Context) (R, error) { return fn() }, release)
	if err != nil {
		var none R
		return none, err
	}
	defer c.cancel(nil)
	c.abort = abort
	return c.waitForResult(ctx, limit)
}
