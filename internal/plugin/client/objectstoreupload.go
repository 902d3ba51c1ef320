// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// errNotRead is the error of a plugin that reports success before it has read all content.
var errNotRead = errors.New("reported success without reading to the end")

// Put implements objectstore.Store. It holds one message of at most 1 MiB in memory. With
// IfAbsent, it checks for the object before the upload, which is not atomic.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	if err := s.checkPutAllowed(ctx, key, opts); err != nil {
		return objectstore.Info{}, err
	}
	inner, t := beginTransfer(ctx, s.opts.IdleTimeout)
	defer t.endTransfer()
	content := &contentReader{ctx: inner, r: r, transfer: t, finishTimeout: s.opts.FinishTimeout, hash: sha256.New()}
	err := s.callPlugin(inner, func(ctx context.Context, call ItemCall, action ObjectStore) error {
		return action.Put(ctx, call, s.storedObject(key), content)
	})
	switch {
	case content.sourceErr != nil:
		return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Err: fmt.Errorf("reading the content: %w", content.sourceErr)}
	case errors.As(err, new(*ContractError)), err == nil && !content.fullyRead:
		// The plugin answered before the end. It may have stored a part of the object,
		// which cannot be told from a complete one.
		err = errors.Join(cmp.Or(err, errNotRead), s.deleteObject(ctx, key))
		return objectstore.Info{}, &objectstore.Error{Op: "putting", Key: key, Err: s.withActionName(err)}
	case err != nil:
		return objectstore.Info{}, s.toStoreError(ctx, "putting", key, toIdleError(inner, err))
	}
	return objectstore.Info{Key: key, Size: content.size, ETag: hex.EncodeToString(content.hash.Sum(nil))}, nil
}

// checkPutAllowed rejects a Put that cannot succeed.
func (s *Store) checkPutAllowed(ctx context.Context, key string, opts objectstore.PutOptions) error {
	fail := func(kind, err error) error {
		return &objectstore.Error{Op: "putting", Key: key, Kind: kind, Err: err}
	}
	if err := objectstore.ValidateKey(key); err != nil {
		return fail(nil, err)
	}
	if err := ctx.Err(); err != nil {
		return fail(nil, err)
	}
	if !opts.IfAbsent {
		return nil
	}
	found, err := s.objectExists(ctx, key)
	switch {
	case err != nil:
		return s.toStoreError(ctx, "putting", key, err)
	case found:
		return fail(objectstore.ErrExists, nil)
	}
	return nil
}

// contentReader is the reader passed to Put, with the outcome of reading it. Only one
// goroutine reads it.
type contentReader struct {
	ctx           context.Context //nolint:containedctx // A stream belongs to the call that reads it.
	r             io.Reader
	transfer      *transfer
	finishTimeout time.Duration

	hash hash.Hash
	size int64
	// fullyRead is set when all content was read, broken to the error of the reader.
	fullyRead bool
	sourceErr error
}

// Read implements io.Reader. It fails when ctx ends, so that a stream that ends after ctx
// is not stored.
func (c *contentReader) Read(p []byte) (int, error) {
	if c.fullyRead {
		return 0, io.EOF
	}
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	c.transfer.pauseTimer()
	n, err := c.r.Read(p)
	c.transfer.resumeTimer()
	c.hash.Write(p[:n])
	c.size += int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		c.sourceErr = err
		return n, err
	case c.ctx.Err() != nil:
		return n, c.ctx.Err()
	}
	c.fullyRead = true
	c.transfer.timer.Reset(c.finishTimeout)
	return n, io.EOF
}
