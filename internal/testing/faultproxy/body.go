// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"io"
)

// responseBody is the body of a response, which partitions and held watches delay.
type responseBody struct {
	io.ReadCloser

	proxy   *Proxy
	ctx     context.Context //nolint:containedctx // the context of the request that this responds to
	isWatch bool
	// Reader, if set, is read instead.
	Reader io.Reader
}

// Read reads, and returns when the client is reachable.
func (b *responseBody) Read(buf []byte) (int, error) {
	r := io.Reader(b.ReadCloser)
	if b.Reader != nil {
		r = b.Reader
	}
	n, err := r.Read(buf)
	if waited := b.proxy.waitUntilConnected(b.ctx, b.isWatch); waited != nil {
		return 0, waited
	}
	return n, err
}
