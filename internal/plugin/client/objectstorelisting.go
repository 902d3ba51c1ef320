// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// List implements objectstore.Store. It holds all keys below the prefix in memory, because
// the plugin sends them at once. It skips keys that no Put could have written, such as the
// directory markers of other programs.
func (s *Store) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return s.listEntries(ctx, opts, "", func(key string) (objectstore.Entry, bool) {
		if objectstore.ValidateKey(key) != nil {
			return objectstore.Entry{}, false
		}
		return opts.RollUp(objectstore.Info{Key: key, Size: objectstore.UnknownSize}), true
	})
}

// CommonPrefixes implements objectstore.PrefixLister.
func (s *Store) CommonPrefixes(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	if opts.Delimiter == "" {
		return func(yield func(objectstore.Entry, error) bool) {
			err := errors.New("common prefixes need a delimiter")
			yield(objectstore.Entry{}, &objectstore.Error{Op: "listing", Key: opts.Prefix, Err: err})
		}
	}
	return s.listEntries(ctx, opts, opts.Delimiter, func(key string) (objectstore.Entry, bool) {
		if key == opts.Prefix || objectstore.ValidateKey(strings.TrimSuffix(key, opts.Delimiter)) != nil {
			return objectstore.Entry{}, false
		}
		return opts.RollUp(objectstore.Info{Key: key}), true
	})
}

// listEntries requests the keys with a prefix, or their common prefixes, converts them with
// entryOf, and yields the entries in order.
func (s *Store) listEntries(
	ctx context.Context, opts objectstore.ListOptions, delimiter string, entryOf func(string) (objectstore.Entry, bool),
) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		keys, err := s.listSortedKeys(ctx, opts, delimiter)
		if err != nil {
			yield(objectstore.Entry{}, err)
			return
		}
		last := ""
		for _, key := range keys {
			if err := ctx.Err(); err != nil {
				yield(objectstore.Entry{}, s.toStoreError(ctx, "listing", opts.Prefix, err))
				return
			}
			entry, ok := entryOf(key)
			if !ok || entry.Key <= opts.StartAfter || entry.Key == last {
				continue
			}
			last = entry.Key
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// listSortedKeys returns the sorted list of the plugin. A key without the requested prefix
// is an error.
func (s *Store) listSortedKeys(ctx context.Context, opts objectstore.ListOptions, delimiter string) ([]string, error) {
	if err := opts.Validate(); err != nil {
		return nil, &objectstore.Error{Op: "listing", Key: opts.Prefix, Err: err}
	}
	var keys []string
	err := s.callWithTimeout(ctx, func(ctx context.Context, call ItemCall, action ObjectStore) error {
		var err error
		keys, err = action.List(ctx, call, s.opts.Bucket, opts.Prefix, delimiter)
		return err
	})
	if err != nil {
		return nil, s.toStoreError(ctx, "listing", opts.Prefix, err)
	}
	for i, key := range keys {
		if !strings.HasSuffix(key, delimiter) {
			key += delimiter // some plugins omit it
			keys[i] = key
		}
		if !strings.HasPrefix(key, opts.Prefix) {
			err := s.withActionName(fmt.Errorf("answered with the key %.100q, which does not begin with that prefix", key))
			return nil, &objectstore.Error{Op: "listing", Key: opts.Prefix, Err: err}
		}
	}
	slices.Sort(keys)
	return keys, nil
}
