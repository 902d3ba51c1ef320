// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// TestObjectReader_Canceled ends the context in the middle of a read. The connection can
// report that in several ways. The reader must return the cancellation: an end of the
// stream would look like the whole object, and a broken connection like a fault of the
// server.
func TestObjectReader_Canceled(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	content := strings.Repeat("content", 1000)
	if _, err := open(t, server.S3Options()).Put(t.Context(), "key", strings.NewReader(content), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]error{
		"the end of the stream": io.EOF, "a cut stream": io.ErrUnexpectedEOF,
		"a closed body": http.ErrBodyReadAfterClose, "a broken connection": errors.New("connection reset by peer (injected)"),
		"the cancellation": context.Canceled,
	} {
		for what, last := range map[string]int{"nothing more": 0, "some more": 10} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tr := newTransport(t, func(next http.RoundTripper, r *http.Request, _ int) (*http.Response, error) {
					resp, err := next.RoundTrip(r)
					if err == nil && sentinelForResponse(r) == http.MethodGet {
						resp.Body = &cancelled{ReadCloser: resp.Body, cancel: cancel, last: last, end: end}
					}
					return resp, err
				})
				r, err := openFaulty(t, server, tr).Get(ctx, "key")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = r.Close() }()
				got, err := io.ReadAll(r)
				if !errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, objectstore.ErrUnavailable) {
					t.Errorf("error %v, want that it was canceled and nothing else", err)
				}
				if want := content[:100+last]; string(got) != want {
					t.Errorf("read %d bytes, want the %d that arrived", len(got), len(want))
				}
				if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("then read %d bytes, error %v", n, err)
				}
				if n := tr.count(http.MethodGet); n != 1 {
					t.Errorf("there were %d requests: a canceled read was continued", n)
				}
			})
		}
	}
}

// cancelled is a body that delivers 100 bytes. In the next read its context ends, and the
// read fails.
type cancelled struct {
	io.ReadCloser
	cancel context.CancelFunc
	read   int
	last   int
	end    error
}

func (c *cancelled) Read(p []byte) (int, error) {
	if c.read < 100 {
		n, err := c.ReadCloser.Read(p[:min(len(p), 100-c.read)])
		c.read += n
		return n, err
	}
	c.cancel()
	n, _ := io.ReadFull(c.ReadCloser, p[:c.last])
	return n, c.end
}
