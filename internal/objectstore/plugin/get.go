// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
)

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.get(ctx, "getting", key)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Store) get(ctx context.Context, op, key string) (*reader, error) {
	if err := objectstore.ValidateKey(key); err != nil {
		return nil, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	r := s.open(ctx, op, key)
	select {
	case <-r.began:
		return r, nil
	case <-r.done:
	}
	// There is no content. That there is no object looks like any error, or, with
	// some plugins, like an empty one.
	if found, err := s.look(ctx, r.err, key); err != nil {
		return nil, s.failed(ctx, op, key, err)
	} else if !found {
		return nil, &objectstore.Error{Op: op, Key: key, Kind: objectstore.ErrNotExist}
	}
	if r.err != nil {
		return nil, s.failed(ctx, op, key, r.err)
	}
	return r, nil
}

// look says whether there is an object, after a call for it that ended with err or
// without content. If nothing was answered, err is returned.
func (s *Store) look(ctx context.Context, err error, key string) (found bool, _ error) {
	if err != nil && !answered(err) {
		return false, err
	}
	found, existsErr := s.exists(ctx, key)
	if existsErr != nil && err != nil {
		return false, err
	}
	return found, existsErr
}

// reader is an object that is being read. Its goroutine ends with the object, or when it
// is closed: as long as content waits to be read, it does not notice the end of ctx.
type reader struct {
	ctx  context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	fail func(error) error

	pipe     *io.PipeReader
	transfer *transfer
	// began is closed when there is content, done when the call has ended with err.
	began, done chan struct{}
	err         error
}

// open begins to read an object.
func (s *Store) open(ctx context.Context, op, key string) *reader {
	pr, pw := io.Pipe()
	inner, t := begin(ctx, s.opts.Idle)
	r := &reader{
		ctx: ctx, pipe: pr, transfer: t, began: make(chan struct{}), done: make(chan struct{}),
		fail: func(err error) error { return s.failed(ctx, op, key, err) },
	}
	out := &received{w: pw, transfer: t, first: sync.OnceFunc(func() { close(r.began) })}
	go func() {
		defer close(r.done)
		defer t.end()
		err := s.do(inner, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, action adapter.ObjectStore) error {
			return action.Get(ctx, conn, call, s.object(key), out)
		})
		if r.err = explain(inner, err); r.err == nil {
			_ = pw.Close()
			return
		}
		_ = pw.CloseWithError(r.fail(r.err))
	}()
	return r
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, r.fail(err)
	}
	return r.pipe.Read(p)
}

// Close ends the call if it is still open.
func (r *reader) Close() error {
	r.transfer.cancel(errClosed)
	_ = r.pipe.CloseWithError(errClosed) // Never fails.
	<-r.done
	return nil
}

var errClosed = errors.New("the reader was closed")

// received takes what the plugin sends.
type received struct {
	w        io.Writer
	transfer *transfer
	first    func()
}

// Write implements io.Writer: it waits until the content is read.
func (w *received) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.first()
	w.transfer.pause()
	defer w.transfer.resume()
	return w.w.Write(p)
}
