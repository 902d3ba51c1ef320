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

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

const (
	// stallTimeout is how long a connection may move no byte in either direction while
	// a request is under way.
	stallTimeout = time.Minute
	// maxStalls is how often in a row a request may stall before its call fails. The
	// client would try ten times, a minute each.
	maxStalls = 2
	// maxAssemblyStalls is maxStalls for the request that has the server make one object
	// of the parts of an upload, during which many a server says nothing. With what comes
	// before and after, it ends within the 15 minutes that a volume has for the same.
	maxAssemblyStalls = 10
	// idleTimeout is when unused connections are closed: before their deadline.
	idleTimeout = 30 * time.Second
	// writeChunkSize is how much is written under one deadline.
	writeChunkSize = 64 << 10
)

// stallConn is a connection on which no read or write waits longer than idle. Each byte that
// moves renews the deadline of both directions, so that a reply may take as long as its
// request is being sent.
type stallConn struct {
	net.Conn
	idle time.Duration
	// hasExternalDeadline is set when a deadline was set from outside, as TLS does when it closes.
	hasExternalDeadline atomic.Bool
}

func (c *stallConn) renewDeadline() {
	if !c.hasExternalDeadline.Load() {
		_ = c.Conn.SetDeadline(time.Now().Add(c.idle)) // fails only when closed, as what follows does
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

// wrapConnections has every connection of a transport end when it stalls.
func wrapConnections(transport *http.Transport, idle time.Duration) {
	dial := transport.DialContext
	transport.IdleConnTimeout = min(idleTimeout, idle)
	// It would often be faster than the deadline of the connection, and does not know of
	// bytes that move.
	transport.ResponseHeaderTimeout = 0
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stallConn{Conn: c, idle: idle}, nil
	}
}

// isStallError reports whether a connection ended at its deadline. One that was never made, as
// the server did not answer or did not shake hands, is none that stalls: it is tried again
// soon.
func isStallError(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// stalledError is the error of a server that stalls.
func (s *Store) stalledError() error {
	return fmt.Errorf("%w: the S3 server %s accepts requests and then moves no byte; check the server and what lies before it (load balancer, proxy)",
		objectstore.ErrStalled, s.client.EndpointURL().Host)
}

// stallCounter counts how often the requests of one ctx stalled in a row.
type stallCounter struct {
	count  atomic.Int32
	limit  int32
	giveUp func()
}

type stallsKey struct{}

// withStallWatch returns the ctx of requests that follow each other, which ends when they stall
// too often. Requests at the same time each need one of their own, as they all stall when
// the network does. The caller calls end when they, or the stream that they opened, are
// over.
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

// toStallError returns why the call of ctx was ended, if it was because the server stalled.
func toStallError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, objectstore.ErrStalled) {
		return cause
	}
	return err
}

// stallTransport is a transport that counts the requests that stall.
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
