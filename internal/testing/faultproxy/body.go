// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"io"
)

// responseBody is the body of an answer, which partitions and held watches keep back.
type responseBody struct {
	io.ReadCloser

	proxy   *Proxy
	ctx     context.Context //nolint:containedctx // that of the request, whose answer this is
	isWatch bool
	// Reader, if set, is read instead.
	Reader io.Reader
}

// Read reads, and returns when the client can be reached.
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
