// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// maxResumes is how often in a row a stream may break off without a byte of
// progress before its error is passed on.
const maxResumes = 3

// reader reads one version of an object and continues after broken
// connections.
type reader struct {
	ctx   context.Context //nolint:containedctx // A stream belongs to the call that opened it.
	store *Store
	key   string

	body    io.ReadCloser
	etag    string
	size    int64
	offset  int64
	resumes int
	done    error
}

// open requests the object from the current offset.
func (r *reader) open() error {
	var opts minio.GetObjectOptions
	if r.offset > 0 {
		if err := opts.SetRange(r.offset, 0); err != nil {
			return err
		}
		if err := opts.SetMatchETag(r.etag); err != nil {
			return err
		}
	}
	body, info, header, err := r.store.client.GetObject(r.ctx, r.store.bucket, r.key, opts)
	if err != nil {
		return err
	}
	if r.offset == 0 {
		r.etag, r.size = info.ETag, info.Size
	} else if header.Get("Content-Range") == "" || info.ETag != r.etag {
		return errors.Join(errors.New("the object changed, or the server does not know ranges"), body.Close())
	}
	r.body = body
	return nil
}

// Read implements io.Reader. Nothing is handed out once the context has ended:
// the client only breaks the connection then, and what the connection buffered
// before, up to the whole rest of the object, could still be read.
func (r *reader) Read(p []byte) (int, error) {
	if r.done != nil {
		return 0, r.done
	}
	if err := r.ctx.Err(); err != nil {
		r.done = failed("reading", r.key, err)
		return 0, r.done
	}
	n, err := r.body.Read(p)
	r.offset += int64(n)
	if n > 0 {
		r.resumes = 0
	}
	if errors.Is(err, io.EOF) && r.offset < r.size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		err = r.resume(err)
	}
	r.done = err
	return n, err
}

// resume tries to go on after cause, and returns nil if it can.
func (r *reader) resume(cause error) error {
	if err := r.ctx.Err(); err != nil {
		return failed("reading", r.key, err)
	}
	if r.resumes >= maxResumes || r.etag == "" {
		return failed("reading", r.key, cause)
	}
	r.resumes++
	_ = r.body.Close() // Broken already.
	r.body = http.NoBody
	if err := r.open(); err != nil {
		return failed("reading", r.key, fmt.Errorf("continuing at byte %d after a broken connection: %w", r.offset, err))
	}
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.body.Close() }
