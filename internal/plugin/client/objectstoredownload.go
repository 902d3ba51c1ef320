// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.getObject(ctx, "getting", key)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Store) getObject(ctx context.Context, op, key string) (*objectReader, error) {
	if err := objectstore.ValidateKey(key); err != nil {
		return nil, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, &objectstore.Error{Op: op, Key: key, Err: err}
	}
	r := s.startReader(ctx, op, key)
	select {
	case <-r.started:
		return r, nil
	case <-r.done:
	}
	// There is no content. A missing object results in an arbitrary error or, with some
	// plugins, in empty content.
	if found, err := s.checkExists(ctx, r.err, key); err != nil {
		return nil, s.toStoreError(ctx, op, key, err)
	} else if !found {
		return nil, &objectstore.Error{Op: op, Key: key, Kind: objectstore.ErrNotExist}
	}
	if r.err != nil {
		return nil, s.toStoreError(ctx, op, key, r.err)
	}
	return r, nil
}

// checkExists reports whether the object exists, after a call for it failed with err or
// returned no content. If the plugin did not answer, checkExists returns err.
func (s *Store) checkExists(ctx context.Context, err error, key string) (found bool, _ error) {
	if err != nil && !isPluginAnswer(err) {
		return false, err
	}
	found, existsErr := s.objectExists(ctx, key)
	if existsErr != nil && err != nil {
		return false, err
	}
	return found, existsErr
}

// objectReader is a stream of an object. Its goroutine ends with the object, or when it is
// closed. While content waits to be read, the goroutine does not notice that ctx ended.
type objectReader struct {
	ctx     context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	toError func(error) error

	pipe     *io.PipeReader
	transfer *transfer
	// started is closed when there is content, done when the call has returned err.
	started, done chan struct{}
	err           error
}

// startReader starts reading an object.
func (s *Store) startReader(ctx context.Context, op, key string) *objectReader {
	pr, pw := io.Pipe()
	inner, t := beginTransfer(ctx, s.opts.IdleTimeout)
	r := &objectReader{
		ctx: ctx, pipe: pr, transfer: t, started: make(chan struct{}), done: make(chan struct{}),
		toError: func(err error) error { return s.toStoreError(ctx, op, key, err) },
	}
	out := &contentWriter{w: pw, transfer: t, onFirstWrite: sync.OnceFunc(func() { close(r.started) })}
	go func() {
		defer close(r.done)
		defer t.endTransfer()
		err := s.callPlugin(inner, func(ctx context.Context, call ItemCall, action ObjectStore) error {
			return action.Get(ctx, call, s.storedObject(key), out)
		})
		if r.err = toIdleError(inner, err); r.err == nil {
			_ = pw.Close()
			return
		}
		_ = pw.CloseWithError(r.toError(r.err))
	}()
	return r
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, r.toError(err)
	}
	return r.pipe.Read(p)
}

// Close ends the call if it is still in progress.
func (r *objectReader) Close() error {
	r.transfer.cancel(errClosed)
	_ = r.pipe.CloseWithError(errClosed) // Never fails.
	<-r.done
	return nil
}

var errClosed = errors.New("the reader was closed")

// contentWriter receives the content from the plugin.
type contentWriter struct {
	w            io.Writer
	transfer     *transfer
	onFirstWrite func()
}

// Write implements io.Writer. It blocks until the content is read.
func (w *contentWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.onFirstWrite()
	w.transfer.pauseTimer()
	defer w.transfer.resumeTimer()
	return w.w.Write(p)
}
