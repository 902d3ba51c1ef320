// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"io"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// feedReader passes the bytes of a reader to a Put in another goroutine. Only the caller of
// Put reads from the reader, and only when the store requests bytes, so the reader is never
// used after Put has returned.
type feedReader struct {
	// requests carries the buffers to fill, replies the result for each.
	requests chan []byte
	replies  chan readReply
	// givenUp is closed when the caller gives up; err is the reason.
	givenUp chan struct{}
	err     error
}

type readReply struct {
	n   int
	err error
}

// Read implements io.Reader for the store.
func (f *feedReader) Read(p []byte) (int, error) {
	select {
	case <-f.givenUp:
		return 0, f.err
	default:
	}
	select {
	case f.requests <- p:
		r := <-f.replies
		return r.n, r.err
	case <-f.givenUp:
		return 0, f.err
	}
}

// Put implements objectstore.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	f := &feedReader{requests: make(chan []byte), replies: make(chan readReply), givenUp: make(chan struct{})}
	c, err := startCall(ctx, s.opts, func(ctx context.Context) (objectstore.Info, error) {
		return s.store.Put(ctx, key, f, opts)
	}, nil)
	if err != nil {
		return objectstore.Info{}, toStoreError("putting", key, err)
	}
	defer c.cancel(nil)
	info, err := s.serveReads(ctx, c, f, r)
	return info, toStoreError("putting", key, err)
}

// serveReads serves a Put until it ends.
func (s *Store) serveReads(ctx context.Context, c *watchedCall[objectstore.Info], f *feedReader, r io.Reader) (objectstore.Info, error) {
	limit := s.opts.Timeouts.Stream
	for {
		timer, stop := newOptionalTimer(limit)
		select {
		case p := <-f.requests:
			stop()
			n, err := r.Read(p)
			if err != nil {
				limit = s.opts.Timeouts.Finish
			}
			f.replies <- readReply{n: n, err: err}
			continue
		case a := <-c.done:
			stop()
			return a.value, a.err
		case <-ctx.Done():
			f.err = ctx.Err()
		case <-timer:
			f.err = s.opts.stalledError(limit)
		}
		stop()
		close(f.givenUp)
		return c.giveUpCall(f.err)
	}
}

const (
	// minBuffer and maxBuffer bound the memory of a stream.
	minBuffer = 4 << 10
	maxBuffer = 64 << 10
)

// objectReader is the stream of a Get. It reads into its own buffer, because an abandoned
// read may still write to it.
type objectReader struct {
	ctx    context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	store  *Store
	key    string
	stream io.ReadCloser
	cancel context.CancelCauseFunc

	buffer []byte
	// stuckErr is set when a read was abandoned. From then on only that read uses the
	// stream, and closes it.
	stuckErr error
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	if r.stuckErr != nil {
		return 0, r.stuckErr
	}
	if err := r.store.opts.checkStuckCalls(); err != nil {
		return 0, toStoreError("reading", r.key, err)
	}
	if len(p) > len(r.buffer) && len(r.buffer) < maxBuffer {
		r.buffer = make([]byte, min(max(len(p), minBuffer), maxBuffer))
	}
	buffer := r.buffer[:min(len(p), len(r.buffer))]
	stream, returned := r.stream, make(chan struct{})
	c := startCallUnchecked(r.ctx, r.store.opts, func(context.Context) (int, error) {
		defer close(returned)
		return stream.Read(buffer)
	}, nil)
	defer c.cancel(nil)
	c.abort = r.cancel
	n, err := c.waitForResult(r.ctx, r.store.opts.Timeouts.Stream)
	select {
	case <-returned:
		return copy(p, buffer[:n]), err
	default:
	}
	r.stuckErr, r.buffer = toStoreError("reading", r.key, err), nil
	r.cancel(err)
	go func() {
		<-returned
		_ = stream.Close()
	}()
	return 0, r.stuckErr
}

// Close implements io.Closer. It is never rejected: a stream that stays open is worse than
// one more stuck call.
func (r *objectReader) Close() error {
	if r.stuckErr != nil {
		return nil
	}
	defer r.cancel(nil)
	// The stream must be closed even if ctx has ended.
	ctx := context.WithoutCancel(r.ctx)
	c := startCallUnchecked(ctx, r.store.opts, func(context.Context) (struct{}, error) {
		return struct{}{}, r.stream.Close()
	}, nil)
	defer c.cancel(nil)
	_, err := c.waitForResult(ctx, r.store.closeTimeout())
	return toStoreError("closing", r.key, err)
}

// closeTimeout bounds closing a stream, which has no ctx.
func (s *Store) closeTimeout() time.Duration {
	if s.opts.Timeouts.Call > 0 {
		return s.opts.Timeouts.Call
	}
	return time.Minute
}
