// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// stallTimeout is how long a connection may transfer no byte in either direction during
	// a request.
	stallTimeout = time.Minute
	// maxStalls is how often in a row a request may stall before its call fails. The client
	// would retry ten times, for a minute each.
	maxStalls = 2
	// maxAssemblyStalls is maxStalls for the request that completes a multipart upload,
	// during which many servers send nothing. Including the requests before and after, it
	// ends within the 15 minutes that a volume has for the same.
	maxAssemblyStalls = 10
	// idleTimeout is when unused connections are closed: before their deadline.
	idleTimeout = 30 * time.Second
	// writeChunkSize is the number of bytes written under one deadline.
	writeChunkSize = 64 << 10
)

// stallConn is a connection on which no read or write waits longer than idle. Each
// transferred byte renews the deadline of both directions, so a reply may take as long as
// the transfer of its request.
type stallConn struct {
	net.Conn
	idle time.Duration
	// hasExternalDeadline is set when a caller sets a deadline, as TLS does on close.
	hasExternalDeadline atomic.Bool
}

func (c *stallConn) renewDeadline() {
	if !c.hasExternalDeadline.Load() {
		_ = c.Conn.SetDeadline(time.Now().Add(c.idle)) // fails only on a closed connection, as the next call does
	}
}

// Read implements net.Conn.
func (c *stallConn) Read(p []byte) (int, error) {
	c.renewDeadline()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.renewDeadline()
	}
	return n, err
}

// Write implements net.Conn.
func (c *stallConn) Write(p []byte) (written int, err error) {
	for {
		c.renewDeadline()
		n, err := c.Conn.Write(p[written:min(len(p), written+writeChunkSize)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// SetDeadline implements net.Conn.
func (c *stallConn) SetDeadline(t time.Time) error {
	c.hasExternalDeadline.Store(true)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *stallConn) SetReadDeadline(t time.Time) error {
	c.hasExternalDeadline.Store(true)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *stallConn) SetWriteDeadline(t time.Time) error {
	c.hasExternalDeadline.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// wrapConnections makes every connection of a transport fail when it stalls.
func wrapConnections(transport *http.Transport, idle time.Duration) {
	dial := transport.DialContext
	transport.IdleConnTimeout = min(idleTimeout, idle)
	// This timeout is often shorter than the deadline of the connection, and ignores
	// transferred bytes.
	transport.ResponseHeaderTimeout = 0
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stallConn{Conn: c, idle: idle}, nil
	}
}

// isStallError reports whether a connection reached its deadline. A connection that was
// never established, because the server did not answer or did not complete the handshake,
// does not count: the client retries it soon.
func isStallError(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// stalledError is the error of a server that stalls.
func (s *Store) stalledError() error {
	return fmt.Errorf("%w: the S3 server %s accepts requests and then moves no byte; check the server and what lies before it (load balancer, proxy)",
		objectstore.ErrStalled, s.client.EndpointURL().Host)
}

// stallCounter counts how often in a row the requests of one ctx stalled.
type stallCounter struct {
	count  atomic.Int32
	limit  int32
	giveUp func()
}

type stallsKey struct{}

// withStallWatch returns the ctx for a sequence of requests. The ctx ends when they stall
// too often. Concurrent requests each need their own, as all of them stall when the network
// does. The caller calls end when the requests, or the stream that they opened, are done.
func (s *Store) withStallWatch(ctx context.Context) (_ context.Context, end func()) {
	return s.withStallLimit(ctx, maxStalls)
}

func (s *Store) withStallLimit(ctx context.Context, limit int32) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	counted := &stallCounter{limit: limit, giveUp: func() { cancel(s.stalledError()) }}
	return context.WithValue(ctx, stallsKey{}, counted), func() { cancel(nil) }
}

// requestWithStallLimit watches one request of a call that makes several.
func (s *Store) requestWithStallLimit(ctx context.Context, limit int32, do func(context.Context) error) error {
	ctx, end := s.withStallLimit(ctx, limit)
	defer end()
	return toStallError(ctx, do(ctx))
}

// toStallError returns the stall error if the ctx of the call ended because the server
// stalled.
func toStallError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, objectstore.ErrStalled) {
		return cause
	}
	return err
}

// stallTransport is a transport that counts stalled requests.
type stallTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c stallTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if s, ok := r.Context().Value(stallsKey{}).(*stallCounter); ok {
		switch {
		case err == nil:
			s.count.Store(0)
		case isStallError(err) && s.count.Add(1) >= s.limit:
			s.giveUp()
		}
	}
	return response, err
}
